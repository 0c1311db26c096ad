// tests/comparison/exchange_test.cpp — exchanges and frames take methods of the survey as any codec.
#include <pith/codec/any_codec.hpp>
#include <pith/comm/threads.hpp>
#include <pith/comparison/adaptive_threshold.hpp>
#include <pith/comparison/inceptionn.hpp>
#include <pith/comparison/sketch_ml.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/wire/frame.hpp>

#include <doctest/doctest.h>

#include "support/roundtrip.hpp"

using namespace support;

namespace {

using any_codec = pith::any_codec<float, pith::seq_executor>;
constexpr std::uint64_t n = 300;

std::vector<float> gradient(std::uint64_t rank) { return narrow<float>(normal_vector(n, 5 + rank)); }

/// Three ranks. Each must receive the sum of all decoded payloads, in order, divided by three.
void exchanges(any_codec const& codec, pith::gather how) {
  auto expected = std::vector<float>(n);
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    auto const y = trial<float, any_codec>(codec, {n}).roundtrip(gradient(rank));
    for (std::size_t i = 0; i < n; ++i) expected[i] += y[i];
  }
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto const policy = [&](pith::tensor_spec const&) { return codec; };
    auto exchange =
        pith::make_exchange<float>(pith::seq, comm, {{"weights", {n}}}, policy, {.seed = 0, .gather_mode = how});
    auto g = gradient(comm.rank());
    exchange.all_reduce_mean(g);
    for (std::size_t i = 0; i < n; ++i) REQUIRE(std::abs(g[i] - expected[i] / 3) <= 0x1p-22f * std::abs(g[i]));
  });
}

void travels_in_frames(any_codec const& codec) {
  auto state = pith::make_state<float>(pith::seq, codec, {n}, {1, 2, 3});
  auto memory = std::vector<std::byte>(pith::wire::workspace_bytes<float>(pith::seq, codec, {n}));
  auto ws = pith::workspace<>(memory);
  auto frame = std::vector<std::byte>(pith::wire::frame_bytes<float>(codec, {n}));
  auto const x = gradient(0);
  pith::wire::seal(pith::seq, codec, x, pith::span<std::byte>(frame), state, ws);
  auto y = std::vector<float>(n);
  pith::wire::open(pith::seq, codec, frame, y, state, ws);
  CHECK(y == trial<float, any_codec>(codec, {n}).roundtrip(x));
  CHECK(pith::wire::read_header(pith::span<std::byte const>(frame)).codec == codec.name());
}

}  // namespace

TEST_CASE("exchanges and frames take them, with and without feedback") {
  for (auto const& codec : {any_codec(pith::inceptionn()), any_codec(pith::adaptive_threshold(0.1)),
                            any_codec(pith::sketch_ml<6>()), any_codec(pith::error_feedback(pith::inceptionn()))}) {
    CAPTURE(codec.name());
    exchanges(codec, pith::gather::padded);
    exchanges(codec, pith::gather::exact);
    travels_in_frames(codec);
  }
}
