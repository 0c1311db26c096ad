// tests/reports/largest_values_test.cpp — gradients as large as their type permits have finite means and residuals.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/parse.hpp>
#include <pith/pith.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/eden.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/vector_quantize/codebook.hpp>
#include <pith/vector_quantize/hypersphere_quantizer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace { namespace largest_values {

constexpr std::size_t n = 300;

/// The means of some steps in which all ranks have the gradient g, one step after another.
template <class In, class C>
std::vector<double> means(C const& codec, unsigned ranks, std::vector<In> const& g, unsigned steps = 1) {
  auto all = std::vector<double>();
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<In>(pith::seq, comm, {{"a", {g.size()}}}, codec);
    for (unsigned step = 0; step < steps; ++step) {
      auto x = g;
      exchange.all_reduce_mean(x);
      for (auto const v : x)
        if (comm.rank() == 0) all.push_back(pith::element_cast<double>(v));
    }
  });
  return all;
}

bool are_finite(std::vector<double> const& all) {
  return std::ranges::all_of(all, [](double v) { return std::isfinite(v); });
}

/// Elements of the largest magnitude, with both signs.
template <class In>
std::vector<In> largest(std::size_t count = n) {
  auto g = std::vector<In>(count);
  for (std::size_t i = 0; i < count; ++i)
    g[i] = pith::element_cast<In>(i % 3 == 0 ? -pith::largest_finite<In> : pith::largest_finite<In>);
  return g;
}
/// One element of the largest magnitude in each eight, between small ones.
template <class In>
std::vector<In> lonely() {
  auto g = largest<In>();
  for (std::size_t i = 0; i < n; ++i)
    if (i % 8 != 0) g[i] = pith::element_cast<In>(pith::accum<In>(1e-3f));
  return g;
}

}}  // namespace ::largest_values

TEST_CASE("means of the largest floats are finite, for any number of ranks") {
  using namespace largest_values;
  for (std::string const text : {"identity",
                                 "top_k(1)",
                                 "random_k(1)",
                                 "scaled_sign",
                                 "one_bit",
                                 "eight_bit",
                                 "summed_terngrad(0)",
                                 "terngrad(0)",
                                 "g_top_k(1)",
                                 "ok_top_k(1)",
                                 "qsgd<2>",
                                 "qsgd<8>",
                                 "qsgd<8>(127,128,max)",
                                 "block_int<2>",
                                 "block_int<4>",
                                 "block_int<8>",
                                 "block_int<2>(32,clip)",
                                 "power_sgd(4)",
                                 "one_sided_power_sgd(4)",
                                 "ring(scaled_sign)",
                                 "two_shot(block_int<8>)",
                                 "two_shot(qsgd<8>)",
                                 "ef(top_k(0.5))"}) {
    for (unsigned const ranks : {1u, 2u, 3u, 7u, 14u}) {
      CAPTURE(text);
      CAPTURE(ranks);
      auto const codec = pith::parse<float>(text);
      auto const of_largest = means(codec, ranks, largest<float>()), of_lonely = means(codec, ranks, lonely<float>());
      CHECK(are_finite(of_largest));
      CHECK(are_finite(of_lonely));
      // Each rank's values are decoded with one sign, so that no mean is lost.
      if (text.find("top_k(0.5)") == text.npos)
        for (std::size_t i = 0; i < n; ++i) CHECK(std::signbit(of_largest[i]) == (i % 3 == 0));
    }
  }
}

TEST_CASE_TEMPLATE("lossless codecs keep the largest numbers but for the roundings of a sum", In, float, double) {
  using namespace largest_values;
  auto const g = largest<In>();
  auto const check = [&](auto const& codec) {
    for (unsigned const ranks : {2u, 3u, 7u, 14u, 15u}) {
      CAPTURE(codec.name());
      CAPTURE(ranks);
      auto const mean = means(codec, ranks, g);
      auto const roundings = (ranks + 3) * static_cast<double>(std::numeric_limits<In>::epsilon());
      for (std::size_t i = 0; i < n; ++i) CHECK(std::abs(mean[i] / static_cast<double>(g[i]) - 1) <= roundings);
    }
  };
  check(pith::identity());
  check(pith::top_k(1.0));
  check(pith::power_sgd(4));
  check(pith::one_sided_power_sgd(4));
}

TEST_CASE("an infinite gradient has an infinite mean") {
  using namespace largest_values;
  auto g = largest<float>();
  g[5] = std::numeric_limits<float>::infinity();
  auto const check = [&](auto const& codec) {
    for (unsigned const ranks : {1u, 3u, 7u}) CHECK(std::isinf(means(codec, ranks, g)[5]));
  };
  check(pith::identity());
  check(pith::top_k(1.0));
  check(pith::cast<pith::bfloat16>());
}

TEST_CASE("buckets of doubles whose norm overflows are decoded") {
  using namespace largest_values;
  auto const g = std::vector<double>(256, 7e307);
  for (auto const v : means(pith::eden<4>(), 2, g)) CHECK(std::abs(v / 7e307 - 1) < 0.5);
  for (auto const v : means(pith::qsgd<8>(), 2, g)) CHECK(std::abs(v / 7e307 - 1) <= 1.3e308 / 127 / 7e307 * 2);
}

TEST_CASE("blocks of the largest bfloat16 have finite means") {
  using namespace largest_values;
  for (unsigned const ranks : {2u, 7u}) {
    CHECK(are_finite(means(pith::block_int<8>(), ranks, largest<pith::bfloat16>())));
    CHECK(are_finite(means(pith::block_int<4>(), ranks, largest<pith::bfloat16>())));
    CHECK(are_finite(means(pith::block_int<2>(), ranks, largest<pith::bfloat16>())));
  }
}

TEST_CASE("powers of two of many ranks have a finite mean") {
  using namespace largest_values;
  auto const g = std::vector<float>(9, 1e38f);
  for (unsigned const ranks : {2u, 4u, 7u}) {
    auto const mean = means(pith::natural<9>(), ranks, g);
    for (auto const v : mean) CHECK((0x1p126 <= v && v <= 0x1p127));
  }
}

TEST_CASE("codewords of large halves are decoded to the largest half") {
  using namespace largest_values;
  auto const codec = pith::hypersphere_quantizer<4>(pith::codebook::axes(8));
  CHECK(are_finite(means(codec, 4, std::vector<pith::half>(n, pith::half(20000.f)))));
}

TEST_CASE("feedback whose states would be infinite stays finite") {
  using namespace largest_values;
  auto const grown = pith::parse<float>("ef(scaled_sign,momentum_correction(0.9,nesterov,unmasked))");
  CHECK(are_finite(means(grown, 1, std::vector<float>(8, 2.5e37f), 40)));
  auto const doubled = pith::parse<float>("ef(top_k(0.5),residual(2,1))");
  CHECK(are_finite(means(doubled, 1, std::vector<float>{3e38f, 2e38f}, 1)));
  pith::run_ranks(1, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"a", {2}}}, pith::parse<float>("ef(top_k(0.5))"));
    auto x = std::vector<float>{3e38f, 2e38f};
    exchange.all_reduce_mean(x);
    exchange.rescale(2);
    CHECK(exchange.fed_back(0)[1] == pith::largest_finite<float>);
  });
}

TEST_CASE("a factor below the normal floats clips a gradient, and does not erase it") {
  using namespace largest_values;
  auto const codec = pith::parse<float>("ef(identity,momentum_correction(0,unmasked,clip_norm(1e-8)))");
  auto const got = means(codec, 1, std::vector<float>(1000, 3e38f));
  for (auto const v : got) CHECK(std::abs(v - 1e-8 / std::sqrt(1000.0)) <= 1e-8 * 1e-6);
}
