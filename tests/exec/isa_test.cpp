// tests/exec/isa_test.cpp — loops for every instruction set that the CPU has make the same bytes.
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/loco.hpp>
#include <pith/feedback/own_residual.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/codecs.hpp"
#include "support/executed.hpp"

using namespace support;

namespace {

std::vector<pith::isa> levels() {
  auto all = std::vector<pith::isa>{pith::isa::baseline};
  if (pith::best_isa() >= pith::isa::avx2) all.push_back(pith::isa::avx2);
  if (pith::best_isa() >= pith::isa::avx512) all.push_back(pith::isa::avx512);
  return all;
}

template <class In>
struct same_at_every_level {
  template <class C>
  void operator()(C const& codec, pith::shape dims) const {
    CAPTURE(codec.name());
    static_assert(pith::reproducible<C>);
    auto const expected = executed<In>(pith::seq_executor(pith::isa::baseline), codec, dims);
    for (auto const level : levels()) {
      CAPTURE(std::string(pith::isa_name(level)));
      CHECK(executed<In>(pith::seq_executor(level), codec, dims) == expected);
    }
  }
};

}  // namespace

TEST_CASE("every instruction set makes the same bytes") {
  for (std::uint64_t const n : {1u, 7u, 513u, 50'003u}) with_reproducible_codecs(n, same_at_every_level<float>());
}

TEST_CASE_TEMPLATE("every instruction set makes the same bytes of other elements", In, double, pith::half,
                   pith::bfloat16) {
  for (std::uint64_t const n : {1u, 513u, 20'003u}) with_kinds_of_quantizers(n, same_at_every_level<In>());
}

TEST_CASE("every instruction set makes the same bytes of feedback step by step, which the fused one has") {
  auto const same = same_at_every_level<float>();
  for (std::uint64_t const n : {1u, 513u, 20'003u}) {
    same(pith::error_feedback(pith::scaled_sign(), pith::own_residual()), {n});
    same(pith::error_feedback(pith::qsgd<8>(), pith::own_residual()), {n});
    same(pith::error_feedback(pith::qsgd<8>(), pith::loco()), {n});
  }
}

TEST_CASE("threads make the bytes of seq with the same instructions though sums are contracted") {
  auto pool = pith::thread_pool(3);
  auto const codec = pith::error_feedback(pith::power_sgd(2));
  auto const dims = pith::shape{250 * 400, 250};
  for (auto const level : levels()) {
    CAPTURE(std::string(pith::isa_name(level)));
    CHECK(executed<float>(pith::par(pool, level), codec, dims) ==
          executed<float>(pith::seq_executor(level), codec, dims));
  }
}

TEST_CASE("an executor uses the given instruction set, and one beyond the CPU is refused") {
  auto pool = pith::thread_pool(1);
  for (auto const level : levels()) {
    CHECK(pith::seq_executor(level).level() == level);
    CHECK(pith::par(pool, level).level() == level);
  }
  CHECK(pith::seq.level() == levels().back());
  if (pith::best_isa() == pith::isa::avx512) return;
  auto const beyond = pith::isa::avx512;
  CHECK_THROWS_AS(static_cast<void>(pith::seq_executor(beyond)), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(pith::par(pool, beyond)), std::invalid_argument);
}
