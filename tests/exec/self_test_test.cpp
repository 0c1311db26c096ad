// tests/exec/self_test_test.cpp — random rounding of executors, and of executors with faults.
#include <pith/comm/self.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/par.hpp>
#include <pith/exec/self_test.hpp>
#include <pith/exec/seq.hpp>
#include <pith/quantize/stochastic_cast.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <stdexcept>

namespace {

enum class fault : std::uint8_t { zeros, rounds_down, one_bit };

/// An executor whose loops make a wrong result. It has the other functions of `seq`.
template <fault Fault>
struct faulty : pith::seq_executor {
  template <class Body>
  void for_each_block(std::uint64_t n, Body const& body) const {
    if constexpr (Fault != fault::zeros) pith::seq_executor::for_each_block(n, body);
    if constexpr (std::same_as<Body, pith::detail::rounded_samples>) {
      if constexpr (Fault == fault::rounds_down) std::fill_n(body.to, n * Body::items_per_block, std::uint16_t{0x3f80});
      if constexpr (Fault == fault::one_bit) body.to[100] ^= 1;
    }
  }
};

}  // namespace

TEST_CASE("self_test accepts the host's executors") {
  CHECK_NOTHROW(pith::self_test(pith::seq));
  CHECK_NOTHROW(pith::self_test(pith::par()));
  for (auto const level : {pith::isa::baseline, pith::isa::avx2, pith::isa::avx512}) {
    if (level <= pith::best_isa()) CHECK_NOTHROW(pith::self_test(pith::seq_executor(level)));
  }
}

TEST_CASE("self_test refuses executors that round wrongly") {
  CHECK_THROWS_WITH_AS(pith::self_test(faulty<fault::zeros>()),
                       doctest::Contains("pith::self_test: random rounding is biased on this executor: of 2048 values"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(pith::self_test(faulty<fault::rounds_down>()), doctest::Contains("must be rounded up, got 0"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(pith::self_test(faulty<fault::one_bit>()),
                       doctest::Contains("must equal that of the host, got 16257 in place of 16256 for value 100"),
                       std::runtime_error);
}

TEST_CASE("an exchange tests its executor before the first step, unless an option forbids the test") {
  auto comm = pith::self_communicator();
  auto const make = [&](bool tests) {
    auto const codec = pith::stochastic_cast<pith::bfloat16>();
    auto const policy = [&](pith::tensor_spec const&) { return codec; };
    return pith::make_exchange<float>(faulty<fault::rounds_down>(), comm, {{"w", {8}}}, policy, {.self_test = tests});
  };
  CHECK_THROWS_WITH_AS(make(true), doctest::Contains("random rounding is biased"), std::runtime_error);
  CHECK_NOTHROW(make(false));
}
