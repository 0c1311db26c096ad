// tests/exchange/all_reduce_mean_test.cpp — ranks that all hold the same: their mean is what one of them would send.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/damped.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/adaptor/rated.hpp>
#include <pith/codec/chain.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/roundtrip.hpp"

using namespace support;

namespace {

/// At all sizes, so that payloads of any number of bytes follow each other in an all-gather. Four is a power of two, so
/// that sums of equal numbers, and their quarter, are exact.
template <class In, class C>
void echoes(C const& codec) {
  CAPTURE(codec.name());
  for (std::size_t const n : {0u, 1u, 2u, 3u, 5u, 6u, 7u, 9u, 13u, 127u, 130u, 300u}) {
    CAPTURE(n);
    auto const x = narrow<In>(normal_vector(n, 17));
    auto const dims = n == 300 ? pith::shape{n, 15} : pith::shape{n};
    auto one = trial<In, C>(codec, dims);
    auto four = trial<In, C>(codec, dims);
    CHECK(same_bytes(one.all_reduce(x), four.all_reduce(x, echo_communicator<4>())));
  }
}

template <class In>
void all_echo() {
  echoes<In>(pith::identity());
  echoes<In>(pith::cast<pith::bfloat16>());
  echoes<In>(pith::scaled_sign());
  echoes<In>(pith::scaled_sign(8));
  echoes<In>(pith::qsgd<8>());
  echoes<In>(pith::qsgd<3>(3, 16));
  echoes<In>(pith::top_k(0.3));
  echoes<In>(pith::top_k(0.3) | pith::qsgd<8>());
  echoes<In>(pith::top_k(0.3) | pith::cast<pith::half>());
  echoes<In>(pith::random_k(0.3));
  echoes<In>(pith::random_k(0.3) | pith::cast<pith::bfloat16>());
  echoes<In>(pith::power_sgd(1));
  echoes<In>(pith::error_feedback(pith::top_k(0.3) | pith::scaled_sign()));
  echoes<In>(pith::error_feedback(pith::power_sgd(1)));
}

}  // namespace

TEST_CASE("four ranks that hold the same have the mean of one") {
  all_echo<float>();
  all_echo<double>();
}

TEST_CASE("narrow types too") {
  all_echo<pith::half>();
  all_echo<pith::bfloat16>();
}

TEST_CASE("a payload and its exchange decode alike") {
  auto const x = narrow<float>(normal_vector(200, 18));
  auto const codec = pith::top_k(0.2) | pith::qsgd<8>();
  using C = std::remove_const_t<decltype(codec)>;
  auto a = trial<float, C>(codec, {200});
  auto b = trial<float, C>(codec, {200});
  CHECK(a.roundtrip(x) == b.all_reduce(x));
}

TEST_CASE("an exchange of payloads that are summed in flight adds at most one tensor to the codec's scratch") {
  auto const within_one = [](auto const& codec) {
    CAPTURE(codec.name());
    auto const dims = pith::shape{1000};
    CHECK(pith::detail::exchange_scratch_bytes<float>(codec, pith::seq, dims, 4) <=
          pith::scratch_for<float>(dims.n) + pith::detail::scratch_bytes<float>(codec, pith::seq, dims));
  };
  within_one(pith::identity());
  within_one(pith::cast<pith::bfloat16>());
  within_one(pith::random_k(0.3));
}

TEST_CASE("a mean of halves overflows only where it is too large itself") {
  for (unsigned const ranks : {2u, 3u, 4u, 5u}) {
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto const with = [&](auto const& codec) {
        CAPTURE(codec.name());
        auto state =
            pith::make_state<pith::half>(pith::seq, codec, {3}, {1, 0, static_cast<std::uint16_t>(comm.rank())});
        auto memory = std::vector<std::byte>(pith::workspace_bytes<pith::half>(pith::seq, codec, {3}, ranks));
        auto ws = pith::workspace<>(pith::span<std::byte>(memory));
        auto g = std::vector<pith::half>{pith::half(30000.0f), pith::half(-65504.0f), pith::half(1.5f)};
        pith::all_reduce_mean<pith::half>(pith::seq, comm, codec, pith::span<pith::half>(g), state, ws);
        // A division by 2^k is exact, N sums and a factor are rounded to 11 bits each.
        CHECK(std::abs(static_cast<float>(g[0]) - 30000) <= 30000 * 0x1p-11f * static_cast<float>(ranks + 1));
        CHECK(std::abs(static_cast<float>(g[1]) + 65504) <= 65504 * 0x1p-11f * static_cast<float>(ranks + 1));
        CHECK(std::abs(static_cast<float>(g[2]) - 1.5f) <= 1.5f * 0x1p-11f * static_cast<float>(ranks + 1));
      };
      with(pith::identity());
      with(pith::bypass(pith::error_feedback(pith::top_k(0.1)), 10));
      with(pith::error_feedback(pith::rated(pith::top_k(0.1)).at(1)));
    });
  }
}
