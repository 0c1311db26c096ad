// tests/adaptor/rated_test.cpp — a rate that changes, everything in one sum at the highest, and what rates would keep.
#include <pith/adaptor/rated.hpp>
#include <pith/codec/chain.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/exec/par.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/conform.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

using namespace support;
using pith::error_feedback;
using pith::rate_list;
using pith::rated;
using pith::top_k;

namespace {

/// The squares of the k largest of x.
double kept(std::vector<double> x, std::uint64_t k) {
  std::sort(x.begin(), x.end(), [](double a, double b) { return std::abs(a) > std::abs(b); });
  double sum = 0;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(k, x.size()); ++i) sum += x[i] * x[i];
  return sum;
}

template <class In, class C>
struct bench {
  C codec;
  pith::shape dims;
  pith::codec_state<In, C, pith::seq_executor> state = pith::make_state<In>(pith::seq, codec, dims);
  std::vector<std::byte> memory = std::vector<std::byte>(pith::workspace_bytes<In>(pith::seq, codec, dims));

  std::vector<std::byte> encode(std::vector<In> const& x) {
    auto payload = std::vector<std::byte>(pith::payload_bytes<In>(codec, dims), std::byte{0xee});
    auto ws = pith::workspace<>(memory);
    pith::compress<In>(pith::seq, codec, pith::span<In const>(x), pith::span(payload), state, ws);
    return payload;
  }
  std::vector<double> energies() {
    auto const* const at = codec.energies_in(state.local());
    return std::vector<double>(at, at + 1 + codec.measured_rates().size());
  }
  std::vector<std::byte> saved() {
    auto saver = pith::detail::field_saver<pith::seq_executor>(pith::seq);
    state.fields(saver);
    return saver.bytes;
  }
};

template <class In, class C>
bench<In, C> on(C codec, pith::shape dims) {
  return {codec, dims};
}

/// Sums of squares of floats are exact products, added in double.
bool is_close(double a, double b) { return std::abs(a - b) <= 1e-12 * (std::abs(a) + std::abs(b)); }

}  // namespace

TEST_CASE("rated takes any input of any size and type") {
  conforms(rated(top_k(0.1)));
  conforms(rated(top_k(0.1)).at(1));
  conforms(error_feedback(rated(top_k(0.1)).measuring({0.5, 0.1, 0.01})));
  conforms(error_feedback(rated(top_k(0.1)).at(1).measuring({0.5, 0.01})));
  conforms(error_feedback(rated(top_k(0.1) | pith::qsgd<8>()).measuring({0.5, 0.01})));
  conforms(error_feedback(rated(top_k(0.1)).measuring({0.5, 0.1}), pith::momentum_correction(0.9)));
  conforms(error_feedback(rated(pith::random_k(0.1))));
}

TEST_CASE_TEMPLATE("measuring changes no bit of the payload or of the state", In, float, double, pith::half,
                   pith::bfloat16) {
  for (std::uint64_t n : {0u, 1u, 2u, 31u, 33u, 1000u, 2049u, 16384u, 16385u, 70001u}) {
    CAPTURE(n);
    for (double const rate : {0.5, 0.1, 0.01}) {
      auto plain = on<In>(error_feedback(top_k(rate)), {n});
      auto measured = on<In>(error_feedback(rated(top_k(0.3)).at(rate).measuring({0.01, 0.1, 0.25})), {n});
      for (unsigned step = 1; step < 4; ++step) {
        auto const x = narrow<In>(normal_vector(n, step));
        CHECK(plain.encode(x) == measured.encode(x));
        CHECK(plain.saved() == measured.saved());
      }
    }
  }
}

TEST_CASE("energies are those of p and of its largest entries") {
  auto const rates = rate_list{0.001, 0.2, 0.05, 1};
  for (std::uint64_t n : {1u, 33u, 4097u, 70001u}) {
    CAPTURE(n);
    auto const x = narrow<float>(normal_vector(n, 5));
    for (double const rate : {0.03, 0.2, 1.0}) {
      auto alone = on<float>(rated(top_k(0.1)).measuring(rates).at(rate), {n});
      auto fed = on<float>(error_feedback(rated(top_k(0.1)).measuring(rates).at(rate)), {n});
      alone.encode(x), fed.encode(x);
      auto const seen = alone.energies();
      CHECK(seen == fed.energies());
      CHECK(is_close(seen[0], kept(widen(x), n)));
      for (std::size_t i = 0; i < rates.size(); ++i)
        CHECK(is_close(seen[1 + i], kept(widen(x), top_k(rates[i]).kept(n))));
    }
  }
}

TEST_CASE("the kept energy of a chain is the energy of its input minus the energy of its error") {
  auto const x = narrow<float>(normal_vector(1000, 6));
  auto const chain = top_k(0.5) | pith::cast<pith::bfloat16>();
  auto measured = on<float>(rated(chain).measuring({0.5, 0.1}), {1000});
  measured.encode(x);
  auto const y = decoded(chain, widen(x));
  double energy = 0, lost = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    energy += widen(x)[i] * widen(x)[i];
    lost += (widen(x)[i] - y[i]) * (widen(x)[i] - y[i]);
  }
  CHECK(is_close(measured.energies()[0], energy));
  CHECK(is_close(measured.energies()[1], energy - lost));
  CHECK(measured.energies()[2] < measured.energies()[1]);
}

TEST_CASE("gains fall along a ladder, and ties and zeros are measured as they are") {
  auto const rates = rate_list{0.5, 0.25, 0.1, 0.01, 0.001};
  for (auto x : {std::vector<float>(40000, 0.0f), std::vector<float>(40000, 2.0f)}) {
    auto tied = on<float>(error_feedback(rated(top_k(0.1)).measuring(rates)), {40000});
    tied.encode(x);
    auto const seen = tied.energies();
    CHECK(seen[0] == 4.0 * (x[0] == 0.0f ? 0 : 40000));
    for (std::size_t i = 0; i < rates.size(); ++i) CHECK(seen[1 + i] == seen[0] * rates[i]);
  }
}

TEST_CASE("a value that is no number is in the energies, and its neighbours are not lost") {
  auto x = narrow<float>(normal_vector(30000, 7));
  x[17] = std::numeric_limits<float>::quiet_NaN();
  auto plain = on<float>(error_feedback(top_k(0.01)), {30000});
  auto measured = on<float>(error_feedback(rated(top_k(0.01)).measuring({0.1, 0.01})), {30000});
  CHECK(plain.encode(x) == measured.encode(x));
  CHECK(plain.saved() == measured.saved());
  for (double const energy : measured.energies()) CHECK(std::isnan(energy));
  x[17] = 0;
  measured.encode(x);
  for (double const energy : measured.energies()) CHECK(std::isfinite(energy));
}

TEST_CASE("the same bytes and energies with threads") {
  auto const x = narrow<float>(normal_vector(200000, 8));
  auto pool = pith::thread_pool(3);
  auto const par = pith::par(pool);
  auto const codec = error_feedback(rated(top_k(0.01)).measuring({0.1, 0.01}));
  auto alone = on<float>(codec, {200000});
  auto state = pith::make_state<float>(par, codec, {200000});
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, {200000}));
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(par, codec, {200000}));
  auto ws = pith::workspace<>(memory);
  pith::compress<float>(par, codec, pith::span<float const>(x), pith::span(payload), state, ws);
  CHECK(alone.encode(x) == payload);
  auto const* const at = codec.energies_in(state.local());
  CHECK(alone.energies() == std::vector<double>(at, at + 3));
}

TEST_CASE("a payload at a dense rate contains every element plus its residual, and the residual becomes zero") {
  auto const codec = error_feedback(rated(top_k(0.25), 0.5));
  auto const x = of({1, -8, 3, 4});
  auto one = on<float>(codec, {4});
  one.encode(x);
  auto const dense = codec.at(0.5);
  CHECK(dense.name() == "ef(rated(top_k(0.25),0.5,dense))");
  CHECK(dense.at(0.49).name() == "ef(rated(top_k(0.49),0.5))");
  CHECK(pith::payload_bytes<float>(dense, {4}) == 16);
  auto payload = std::vector<std::byte>(16);
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, dense, {4}));
  auto room = pith::workspace<>(memory);
  pith::compress<float>(pith::seq, dense, pith::span<float const>(x), pith::span(payload), one.state, room);
  auto const* const sent = reinterpret_cast<float const*>(payload.data());
  CHECK(std::vector<float>(sent, sent + 4) == of({2, -8, 6, 8}));
  one.encode(of({0, 0, 0, 0}));
  CHECK(std::get<1>(one.state.local().each).residual.view()[0] == 0);
}

TEST_CASE("rates are refused in words") {
  CHECK_THROWS_WITH_AS(rated(top_k(0.1), 0), "pith::rated: dense_from must be in (0, 1], got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(rate_list({0.5, 0}), "pith::rate_list: rate must be in (0, 1], got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(rate_list({1, 1, 1, 1, 1, 1, 1, 1, 1}), "pith::rate_list: rates must be at most 8, got 9",
                       std::invalid_argument);
}
