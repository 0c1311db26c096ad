// tests/laws/laws_long_test.cpp — longer searches for inputs that break a bound, with more draws.
#include "laws/laws.hpp"

#include <pith/adaptor/damped.hpp>
#include <pith/codec/chain.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

namespace {

using unbiased_k = pith::random_k<pith::scaling::unbiased>;

/// `levels`: as many as the quantizer in it has, if it truncates 2^-16 of one.
template <class C>
void lawful(C const& codec, double levels = 0) {
  for (std::uint64_t const n : {2u, 3u, 9u, 16u, 63u, 136u, 257u}) {
    auto how = laws::options{.draws = 1000000, .search = 10000, .seed = 40 + n};
    if (levels > 0) how.bias = 1.5 * 0x1p-16 * std::sqrt(static_cast<double>(n)) / levels;
    auto const found = laws::check(codec, {n}, how);
    INFO(found.text());
    CHECK(found.holds());
  }
}

}  // namespace

TEST_CASE("quantizers") {
  lawful(pith::cast<pith::half>());
  lawful(pith::scaled_sign());
  lawful(pith::scaled_sign(16));
  lawful(pith::qsgd<2>(), 1);
  lawful(pith::qsgd<2>(1, 0, pith::norm::max), 1);
  lawful(pith::qsgd<3>(2, 16), 2);
  lawful(pith::qsgd<4>(), 7);
  lawful(pith::qsgd<8>(), 127);
}

TEST_CASE("sparsifiers") {
  lawful(pith::top_k(0.15));
  lawful(pith::random_k(0.15));
  lawful(unbiased_k(0.15));
}

TEST_CASE("hybrids") {
  lawful(pith::top_k(0.3) | pith::scaled_sign());
  lawful(pith::top_k(0.3) | pith::qsgd<8>());
  lawful(pith::top_k(0.3) | pith::damped(pith::qsgd<2>()));
  lawful(pith::random_k(0.3) | pith::damped(pith::qsgd<2>()));
  lawful(unbiased_k(0.3) | pith::qsgd<4>(), 7);
}

TEST_CASE("power_sgd in the mean over Q") {
  for (auto const& dims : {pith::shape{64, 8}, pith::shape{120, 12}, pith::shape{4 * 64, 64}, pith::shape{3 * 40, 3}}) {
    for (unsigned const rank : {1u, 2u}) {
      auto const found = laws::check(pith::power_sgd(rank), dims, {.draws = 400000, .search = 2000, .seed = 77});
      INFO(found.text());
      CHECK(found.holds());
    }
  }
}
