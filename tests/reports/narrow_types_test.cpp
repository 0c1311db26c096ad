// tests/reports/narrow_types_test.cpp — exchanges of half and bfloat16 give the rounded results of float, with one rank
// and with many ranks, with weights, and over many steps of feedback. Compare NVIDIA/Megatron-LM#6199, which requests
// sums in float and bfloat16 on the wire.
#include <pith/collective/g_top_k.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/ok_top_k.hpp>
#include <pith/collective/ring.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/threads.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/exchange/detail/rank_weights.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/pith.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/eight_bit.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/stochastic_cast.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/redsync_mean.hpp>
#include <pith/transform/hadamard.hpp>

#include <doctest/doctest.h>

#include "support/vectors.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <vector>

namespace {

namespace narrow_types {

/// The number of ranks, and the largest magnitude of a gradient.
struct situation {
  unsigned ranks;
  float size;
};

/// From the smallest gradients of mixed precision to those that a loss scale brings near the largest half.
constexpr situation situations[] = {{1, 1},     {2, 30000},  {3, 65504},  {4, 1e-6f},
                                    {7, 50000}, {64, 1e-5f}, {64, 1e-6f}, {64, 65504}};

/// The largest rounding error of T at x: half the distance of neighbouring values.
template <class T>
double rounding_at(double x) {
  auto const least = std::same_as<T, pith::half> ? -14 : -126;
  auto exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(support::roundoff<T>(), std::max(exponent - 1, least));
}

/// Gradients that T represents exactly, so that the exchanges in T and in float begin with equal values. One element in
/// eight has the largest magnitude.
template <class T, class In>
std::vector<In> gradient(unsigned rank, std::size_t n, float size) {
  auto g = std::vector<In>(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto const part = i % 8 == 0 ? 1.f : static_cast<float>((i * 37 + rank * 11 + i * i) % 64) / 64;
    g[i] = pith::element_cast<In>(pith::element_cast<float>(T(i % 3 == 0 ? -size * part : size * part)));
  }
  return g;
}

/// The means after one step of In. If there are weights, a rank of weight 0 has NaN.
template <class T, class In, class C>
std::vector<double> mean_in(C const& codec, situation const& at, std::vector<double> const& weights = {}) {
  auto means = std::vector<double>();
  pith::run_ranks(at.ranks, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<In>(pith::seq, comm, {{"a", {300}}, {"b", {24, 24}}}, codec,
                                            {.is_weighted = !weights.empty()});
    auto const weight = weights.empty() ? 1 : weights[comm.rank()];
    auto g = weight == 0 ? std::vector<In>(exchange.size(), In(NAN))
                         : gradient<T, In>(comm.rank(), exchange.size(), at.size);
    exchange.all_reduce_mean(g, weight);
    if (comm.rank() == 0)
      std::ranges::transform(g, std::back_inserter(means), [](In x) { return pith::element_cast<double>(x); });
  });
  return means;
}

/// Each value of a step in T may differ from that in float by `roundings` times the rounding error at its own
/// magnitude, or at `reach` times the size of the gradients: the largest value that a rank's payload decodes to.
template <class T, class C>
void as_float(C const& codec, int roundings, double reach = 0) {
  auto const limit = static_cast<double>(pith::largest_finite<T>);
  for (auto const& at : situations) {
    if (reach * at.size > limit) continue;  // T cannot hold the values of a rank's payload
    auto const got = mean_in<T, T>(codec, at), right = mean_in<T, float>(codec, at);
    auto worst = 0.0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      auto const bound = rounding_at<T>(std::max(std::abs(right[i]), reach * at.size));
      worst = std::max(worst, std::isfinite(got[i]) ? std::abs(got[i] - right[i]) / bound : HUGE_VAL);
    }
    CAPTURE(codec.name());
    CAPTURE(at.ranks);
    CAPTURE(at.size);
    CHECK(worst <= roundings);
  }
}

template <class T, class C>
void is_finite_in(C const& codec) {
  CAPTURE(codec.name());
  for (auto const& at : situations)
    CHECK(std::ranges::all_of(mean_in<T, T>(codec, at), [](double x) { return std::isfinite(x); }));
}

}  // namespace narrow_types

}  // namespace

TEST_CASE_TEMPLATE("a mean of 16-bit elements is the mean of floats after one rounding", T, pith::half,
                   pith::bfloat16) {
  using namespace narrow_types;
  as_float<T>(pith::identity(), 1);
  as_float<T>(pith::cast<T>(), 1);
  as_float<T>(pith::top_k(0.25), 1);
  as_float<T>(pith::random_k(0.5), 1);
  as_float<T>(pith::hierarchical(pith::identity(), pith::identity(), 1), 1);
  as_float<T>(pith::error_feedback(pith::top_k(0.25)), 1);
  as_float<T>(pith::error_feedback(pith::power_sgd(2)), 1);
}

TEST_CASE_TEMPLATE("decoded values of quantizers are rounded and their mean is rounded once more", T, pith::half,
                   pith::bfloat16) {
  using namespace narrow_types;
  as_float<T>(pith::scaled_sign(), 2, 1);
  as_float<T>(pith::block_int<8>(), 2, 1.01);  // a scale is a bfloat16, so the largest value decodes to 1 + 2^-8 of it
  as_float<T>(pith::eight_bit(), 2, 1);
  as_float<T>(pith::natural<9>(), 2, 2);              // rounds up to the next power of two
  as_float<T>(pith::qsgd<8>(), 2, std::sqrt(128.0));  // the largest value decodes to at most the norm of its bucket
}

TEST_CASE_TEMPLATE("codecs that encode rounded values again keep means finite", T, pith::half, pith::bfloat16) {
  using namespace narrow_types;
  is_finite_in<T>(pith::cast<pith::bfloat16>());
  is_finite_in<T>(pith::stochastic_cast<pith::bfloat16>());
  is_finite_in<T>(pith::qsgd<8>());
  is_finite_in<T>(pith::two_shot(pith::qsgd<8>()));
  is_finite_in<T>(pith::ring(pith::qsgd<8>()));
  is_finite_in<T>(pith::hadamard() | pith::qsgd<8>());
  is_finite_in<T>(pith::g_top_k(1));
  is_finite_in<T>(pith::ok_top_k(1));
}

TEST_CASE("partial means of a ring stay finite near the largest half") {
  pith::run_ranks(4, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<pith::half>(pith::seq, comm, {{"a", {512}}}, pith::ring(pith::qsgd<8>()));
    auto g = std::vector<pith::half>(512, pith::half(64000.f));
    exchange.all_reduce_mean(g);
    CHECK(std::ranges::all_of(g, [](pith::half x) { return std::isfinite(static_cast<float>(x)); }));
  });
}

TEST_CASE_TEMPLATE("products and sums of 16-bit elements stay finite", T, pith::half, pith::bfloat16) {
  auto const largest = pith::largest_finite<T>;
  auto x = std::vector<T>{pith::element_cast<T>(largest), pith::element_cast<T>(-largest), pith::element_cast<T>(NAN)};
  auto const start = x;
  auto const factor = 1e30;
  pith::seq.for_each_index(3, pith::detail::weigh_value<T>{x.data(), &factor});
  CHECK(x[0].bits == start[0].bits);
  CHECK(x[1].bits == start[1].bits);
  CHECK(std::isnan(pith::element_cast<float>(x[2])));
  pith::seq.for_each_index(2, pith::detail::add<T, T>{start.data(), x.data()});
  pith::seq.for_each_index(2, pith::detail::scale<T, T>{x.data(), x.data(), 1e30f});
  CHECK(x[0].bits == start[0].bits);
  CHECK(x[1].bits == start[1].bits);
}

TEST_CASE("the error of a cast to 16 bits does not grow with the number of ranks") {
  auto const means_of = [](auto const& codec, unsigned ranks, float value) {
    auto mean = 0.f;
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"a", {5}}}, codec);
      auto g = std::vector<float>(5, value);
      exchange.all_reduce_mean(g);
      if (comm.rank() == 0) mean = g[4];
    });
    return mean;
  };
  for (unsigned const ranks : {2u, 64u, 256u, 1000u}) {
    CAPTURE(ranks);
    for (float const value : {1e-6f, 1e-5f, 1.f, 60000.f})
      CHECK(means_of(pith::cast<pith::half>(), ranks, value) == pith::element_cast<float>(pith::half(value)));
    for (float const value : {1e-30f, 1.f, 3e38f})
      CHECK(means_of(pith::cast<pith::bfloat16>(), ranks, value) == pith::element_cast<float>(pith::bfloat16(value)));
    auto const error = std::abs(means_of(pith::identity(), ranks, 3e38f) - 3e38f);
    CHECK(error <= 3e38f * 0x1p-24f * static_cast<float>(ranks + 1));  // as many sums, and a factor
  }
}

TEST_CASE_TEMPLATE("payloads of wider elements keep the digits of small gradients", T, float, double) {
  for (unsigned const ranks : {2u, 64u}) {
    for (float const value : {1e-6f, 1e-5f}) {
      pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
        auto exchange = pith::make_exchange<pith::half>(pith::seq, comm, {{"a", {5}}}, pith::cast<T>());
        auto g = std::vector<pith::half>(5, pith::half(value));
        exchange.all_reduce_mean(g);
        CHECK(g[4].bits == pith::half(value).bits);
      });
    }
  }
}

TEST_CASE_TEMPLATE("weights do not overflow and a rank of weight 0 may have NaN", T, pith::half, pith::bfloat16,
                   float) {
  using namespace narrow_types;
  auto const size = std::same_as<T, pith::half> ? 50000.f : 1e37f;
  auto const weighted = [&](auto const& codec, std::vector<double> const& weights) {
    auto const ranks = static_cast<unsigned>(weights.size());
    auto total = 0.0;
    for (auto const w : weights) total += w / *std::ranges::max_element(weights);
    auto const got = mean_in<T, T>(codec, {ranks, size}, weights);
    auto right = std::vector<double>(got.size());
    for (unsigned r = 0; r < ranks; ++r) {
      auto const g = gradient<T, double>(r, got.size(), size);
      auto const share = weights[r] / *std::ranges::max_element(weights) / total;
      for (std::size_t i = 0; i < g.size(); ++i) right[i] += weights[r] == 0 ? 0 : share * g[i];
    }
    CAPTURE(codec.name());
    for (std::size_t i = 0; i < got.size(); ++i) {
      auto const digits = std::same_as<T, float> ? 0x1p-24 * size : rounding_at<T>(size);
      CHECK(std::abs(got[i] - right[i]) <= 2 * digits);  // a gradient is rounded, and the mean is
    }
  };
  for (auto const& weights :
       {std::vector<double>{1, 0, 0, 0}, {3, 1}, {1e308, 1e308, 1e308}, {1e-300, 2e-300}, {0, 5}}) {
    weighted(pith::identity(), weights);
    weighted(pith::error_feedback(pith::top_k(1)), weights);
  }
}

TEST_CASE_TEMPLATE("later steps deliver a residual beyond the largest half", T, pith::half, pith::bfloat16) {
  auto const arrives = [](auto const& codec, unsigned ranks) {
    constexpr std::size_t n = 1000;
    constexpr unsigned steps = 300;
    auto sent = std::vector<double>(n), received = std::vector<double>(n), kept = std::vector<double>(n);
    auto residuals = std::vector<std::vector<float>>(ranks);
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto exchange = pith::make_exchange<T>(pith::seq, comm, {{"a", {n}}}, codec);
      auto mine = std::vector<double>(n);
      for (unsigned step = 0; step < steps; ++step) {
        auto g = std::vector<T>(n);
        for (std::size_t i = 0; i < n; ++i)
          g[i] = T(i % 10 == 0 ? 1000.f + float((i + step + comm.rank()) % 64) : 0.5f);
        if (comm.rank() == 0) {
          for (unsigned r = 0; r < ranks; ++r)
            for (std::size_t i = 0; i < n; ++i)
              sent[i] += double(float(T(i % 10 == 0 ? 1000.f + float((i + step + r) % 64) : 0.5f))) / ranks;
        }
        exchange.all_reduce_mean(g);
        if (comm.rank() == 0)
          std::ranges::transform(received, g, received.begin(),
                                 [](double a, T b) { return a + pith::element_cast<double>(b); });
      }
      residuals[comm.rank()] = exchange.fed_back(0);
    });
    for (auto const& mine : residuals)
      std::ranges::transform(kept, mine, kept.begin(), [&](double a, float b) { return a + double(b) / ranks; });
    CAPTURE(codec.name());
    // Each step adds a gradient and subtracts a payload in float, at magnitudes of at most the sum of all gradients.
    for (std::size_t i = 0; i < n; ++i) CHECK(std::abs(sent[i] - received[i] - kept[i]) <= steps * 0x1p-22 * sent[i]);
  };
  for (unsigned const ranks : {1u, 3u}) {
    arrives(pith::error_feedback(pith::top_k(0.01)), ranks);
    arrives(pith::error_feedback(pith::top_k(0.01), pith::mean_residual()), ranks);
    arrives(pith::error_feedback(pith::redsync_mean(0.01)), ranks);
    arrives(pith::error_feedback(pith::two_shot(pith::top_k(0.01), pith::identity())), ranks);
  }
}

TEST_CASE_TEMPLATE("residuals of weighted gradients arrive in the unit of the gradients", T, pith::half,
                   pith::bfloat16) {
  using codec = pith::any_codec<T, pith::seq_executor>;
  constexpr std::size_t n = 400;
  constexpr unsigned ranks = 4, steps = 200;
  auto const value = [](unsigned r, unsigned step, std::size_t i) {
    return T(i % 10 == 0 ? 1000.f + static_cast<float>((i + step + r) % 64) : 0.5f);
  };
  for (auto const& of : {codec(pith::error_feedback(pith::top_k(0.02), pith::two_sided(pith::top_k(0.02)))),
                         codec(pith::error_feedback(pith::random_k(0.02))),
                         codec(pith::hierarchical(pith::identity(), pith::error_feedback(pith::random_k(0.02)), 2))}) {
    CAPTURE(of.name());
    auto sent = std::vector<double>(n), received = sent;
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto ex = pith::make_exchange<T>(pith::seq, comm, {{"a", {n}}}, of, {.is_weighted = true});
      for (unsigned step = 0; step < steps + 8; ++step) {
        if (step == steps) ex.change({codec(pith::identity())});  // the last steps deliver the residuals
        auto g = std::vector<T>(n);
        for (std::size_t i = 0; i < n && step < steps; ++i) g[i] = value(comm.rank(), step, i);
        ex.all_reduce_mean(g, step % 2 == 0 ? 1 + 2 * comm.rank() : 1);
        if (comm.rank() != 0) continue;
        for (std::size_t i = 0; i < n; ++i) {
          received[i] += pith::element_cast<double>(g[i]);
          for (unsigned r = 0; r < ranks && step < steps; ++r)
            sent[i] += double(float(value(r, step, i))) * (step % 2 == 0 ? (1 + 2 * r) / 16.0 : 0.25);
        }
      }
    });
    // A step rounds a weighted gradient once.
    auto const bound = std::same_as<T, pith::half> ? 0x1p-11 : 0x1p-8;
    for (std::size_t i = 0; i < n; ++i) CHECK(std::abs(sent[i] - received[i]) <= bound * sent[i]);
  }
}

TEST_CASE("a residual of bfloat16 has the unit of weighted gradients") {
  using codec = pith::any_codec<pith::half, pith::seq_executor>;
  constexpr std::size_t n = 16;
  auto received = std::vector<float>(n);
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto const fed = codec(pith::error_feedback(pith::random_k(0.5), pith::residual<pith::bfloat16>()));
    auto ex = pith::make_exchange<pith::half>(pith::seq, comm, {{"a", {n}}}, fed, {.is_weighted = true});
    for (unsigned step = 0; step < 10; ++step) {
      if (step == 8) ex.change({codec(pith::identity())});
      auto g = std::vector<pith::half>(n, pith::half(step < 8 ? 4.f : 0.f));
      ex.all_reduce_mean(g, 1 + 2 * comm.rank());
      for (std::size_t i = 0; i < n && comm.rank() == 0; ++i) received[i] += static_cast<float>(g[i]);
    }
  });
  CHECK(received == std::vector<float>(n, 8 * 4));  // all values are whole numbers below 256, which bfloat16 represents
}
