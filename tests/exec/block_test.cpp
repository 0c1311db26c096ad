// tests/exec/block_test.cpp — bodies that a team of threads shares make the bytes of one thread, without a race.
#include <pith/core/detail/summation.hpp>
#include <pith/exec/seq.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "support/codecs.hpp"
#include "support/exchanged.hpp"
#include "support/thread_team.hpp"

using namespace support;

namespace {

template <class In>
struct same_by_a_team {
  std::uint32_t threads;

  template <class C>
  void operator()(C const& codec, pith::shape dims) const {
    CAPTURE(codec.name());
    CHECK(executed<In>(team_executor(threads), codec, dims) == executed<In>(pith::seq, codec, dims));
  }
};

/// Not commutative, so that the order shows.
struct lopsided {
  double operator()(double a, double b) const { return a - 0.5 * b; }
};
struct at {
  double const* x;
  double operator()(std::uint64_t i) const { return x[i]; }
};

template <class E>
double reduced(E const& exec, std::vector<double> const& x) {
  auto memory = std::vector<std::byte>(pith::detail::reduce_scratch_bytes<double>(x.size()) + 128);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  double sum = -1;
  pith::detail::reduce_into(exec, &sum, x.size(), at{x.data()}, lopsided(), 0.0, ws);
  return sum;
}

}  // namespace

TEST_CASE("quantizers make the same bytes by any team") {
  for (std::uint32_t const threads : {1u, 4u, 7u}) {
    for (std::uint64_t const n : {9u, 2049u}) {
      CAPTURE(threads);
      CAPTURE(n);
      with_quantizers(n, same_by_a_team<float>{threads});
    }
  }
}

TEST_CASE("selections make the same bytes by any team") {
  for (std::uint32_t const threads : {1u, 5u}) {
    CAPTURE(threads);
    for (std::uint64_t const n : {1u, 2049u}) with_sparsifiers(n, same_by_a_team<float>{threads});
  }
}

TEST_CASE_TEMPLATE("other element types make the same bytes by a team", In, double, pith::half, pith::bfloat16) {
  with_kinds_of_quantizers(5003, same_by_a_team<In>{4});
}

TEST_CASE("buckets of several tiles make the same bytes by a team") {
  with_kinds_of_quantizers(50'003, same_by_a_team<float>{4});
}

TEST_CASE("top-k of many blocks and low rank make the same bytes by a team") {
  same_by_a_team<float>{4}(pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>()), {20'003});
  same_by_a_team<float>{4}(pith::power_sgd(2), {5000, 50});
  auto const by_turns = pith::error_feedback(pith::one_sided_power_sgd(2));
  CHECK(exchanged<float>(team_executor(4), by_turns, {5000, 50}) == exchanged<float>(pith::seq, by_turns, {5000, 50}));
}

TEST_CASE("buckets whose rows need more lanes than half a block do not write past them") {
  for (std::uint64_t const bucket : {24u, 136u, 264u}) {
    CAPTURE(bucket);
    same_by_a_team<float>{4}(pith::qsgd<8>(127, bucket), {5003});
    same_by_a_team<float>{4}(pith::scaled_sign(bucket), {5003});
  }
}

TEST_CASE("a reduction has the same bits by any team") {
  for (std::uint64_t const n : {1u, 2u, 255u, 2047u, 2049u, 16'383u, 16'385u, 100'003u}) {
    CAPTURE(n);
    auto const x = normal_vector(n, 5);
    CHECK(reduced(team_executor(4), x) == reduced(pith::seq, x));
    CHECK(reduced(team_executor(7), x) == reduced(pith::seq, x));
  }
}
