// tests/codec/compress_test.cpp — the verbs: what they refuse, and that equal calls give equal bytes.
#include <pith/codec/chain.hpp>
#include <pith/codec/compress.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/packed_indices.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

#include "support/launches.hpp"
#include "support/roundtrip.hpp"

using namespace support;

namespace {

/// A codec of 8 elements whose payload has 8 bytes and a scale.
struct fixture {
  pith::qsgd<8> codec = pith::qsgd<8>();
  pith::codec_state<float, pith::qsgd<8>, pith::seq_executor> state = pith::make_state<float>(pith::seq, codec, {8});
  std::vector<float> x = std::vector<float>(8, 1);
  std::vector<std::byte> payload = std::vector<std::byte>(12);
  std::vector<std::byte> memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {8}));
  pith::workspace<> ws = pith::workspace<>(pith::span<std::byte>(memory));

  void compress(std::size_t n, std::size_t bytes) {
    pith::compress(pith::seq, codec, pith::span<float const>(x.data(), n), pith::span<std::byte>(payload.data(), bytes),
                   state, ws);
  }
  void decompress(std::size_t n, std::size_t bytes) {
    pith::decompress(pith::seq, codec, pith::span<std::byte const>(payload.data(), bytes),
                     pith::span<float>(x.data(), n), state, ws);
  }
};

/// What a step launches for a tensor of n normal numbers.
template <class C>
unsigned launched(C const& codec, std::uint64_t n) {
  unsigned count = 0;
  auto const exec = counting_executor(count);
  auto const x = narrow<float>(normal_vector(n, 11));
  auto state = pith::make_state<float>(exec, codec, {n});
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, {n}));
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(exec, codec, {n}));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  count = 0;
  pith::compress(exec, codec, pith::span(x), pith::span(payload), state, ws);
  return count;
}

}  // namespace

TEST_CASE("a payload one byte short is refused") {
  auto f = fixture();
  REQUIRE(pith::payload_bytes<float>(f.codec, {8}) == 12);
  CHECK_NOTHROW(f.compress(8, 12));
  CHECK_THROWS_WITH_AS(f.compress(8, 11), "pith::compress: payload must have at least 12 bytes, got 11",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(f.decompress(8, 11), "pith::decompress: payload must have at least 12 bytes, got 11",
                       std::invalid_argument);
}

TEST_CASE("a payload that lies anywhere is refused") {
  auto f = fixture();
  auto bytes = std::vector<std::byte>(24);
  auto const at_four = pith::span<std::byte>(bytes.data() + 4, 12);
  CHECK_THROWS_WITH_AS(pith::compress(pith::seq, f.codec, pith::span<float const>(f.x), at_four, f.state, f.ws),
                       "pith::compress: payload must be aligned to 8 bytes, got an address 4 bytes off",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      pith::decompress(pith::seq, f.codec, pith::span<std::byte const>(at_four), pith::span<float>(f.x), f.state, f.ws),
      "pith::decompress: payload must be aligned to 8 bytes, got an address 4 bytes off", std::invalid_argument);
}

TEST_CASE("a gradient of another size is refused") {
  auto f = fixture();
  CHECK_THROWS_WITH_AS(f.compress(7, 12), "pith::compress: x must have 8 elements, got 7", std::invalid_argument);
  CHECK_THROWS_WITH_AS(f.decompress(7, 12), "pith::decompress: x must have 8 elements, got 7", std::invalid_argument);
  auto comm = pith::self_communicator();
  CHECK_THROWS_WITH_AS(pith::all_reduce_mean(pith::seq, comm, f.codec, pith::span<float>(f.x.data(), 5), f.state, f.ws),
                       "pith::all_reduce_mean: gradient must have 8 elements, got 5", std::invalid_argument);
}

TEST_CASE("a refused call does not begin a step") {
  auto f = fixture();
  CHECK_THROWS_AS(f.compress(7, 12), std::invalid_argument);
  CHECK_THROWS_AS(f.compress(8, 11), std::invalid_argument);
  CHECK(*f.state.id().step == 0);
  f.compress(8, 12);
  CHECK(*f.state.id().step == 1);
}

TEST_CASE("a workspace that is too small is refused") {
  auto const codec = pith::top_k(0.5);
  auto state = pith::make_state<float>(pith::seq, codec, {100});
  auto const x = std::vector<float>(100, 1);
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, {100}));
  auto ws = pith::workspace<>(pith::span<std::byte>());
  CHECK_THROWS_AS(
      pith::compress(pith::seq, codec, pith::span<float const>(x), pith::span<std::byte>(payload), state, ws),
      pith::workspace_exhausted);
}

TEST_CASE("a payload may be longer than needed and its tail stays") {
  auto f = fixture();
  f.payload.resize(20, std::byte{0x77});
  f.compress(8, 20);
  for (std::size_t i = 12; i < 20; ++i) CHECK(f.payload[i] == std::byte{0x77});
  CHECK_NOTHROW(f.decompress(8, 20));
}

TEST_CASE("equal seeds give equal bytes whatever lay in the payload") {
  auto const codec = pith::top_k(0.3) | pith::qsgd<3>();
  using codec_type = std::remove_const_t<decltype(codec)>;
  for (std::size_t const n : {1u, 5u, 43u, 129u, 1000u}) {
    CAPTURE(n);
    auto const x = narrow<float>(normal_vector(n, 8));
    auto a = trial<float, codec_type>(codec, {n});
    auto b = trial<float, codec_type>(codec, {n});
    CHECK(a.compress(x, std::byte{0x00}) == b.compress(x, std::byte{0xff}));
    CHECK(a.compress(x, std::byte{0x11}) == b.compress(x, std::byte{0xee}));
  }
}

TEST_CASE("the next step and another seed or tensor or rank draw again") {
  auto const x = narrow<float>(normal_vector(1000, 9));
  using codec = pith::qsgd<4>;
  auto a = trial<float, codec>(codec(), {1000}, {1, 2, 3});
  auto const first = a.compress(x);
  CHECK(first != a.compress(x));
  CHECK(first == trial<float, codec>(codec(), {1000}, {1, 2, 3}).compress(x));
  CHECK(first != trial<float, codec>(codec(), {1000}, {9, 2, 3}).compress(x));
  CHECK(first != trial<float, codec>(codec(), {1000}, {1, 9, 3}).compress(x));
  CHECK(first != trial<float, codec>(codec(), {1000}, {1, 2, 9}).compress(x));
}

TEST_CASE("a rank decodes another rank's payload of the same step to the same values") {
  auto const x = narrow<float>(normal_vector(100, 10));
  auto const codec = pith::random_k(0.25) | pith::qsgd<8>();
  using codec_type = std::remove_const_t<decltype(codec)>;
  auto sender = trial<float, codec_type>(codec, {100}, {1, 2, 3});
  auto receiver = trial<float, codec_type>(codec, {100}, {1, 2, 0});
  auto const payload = sender.compress(x);
  receiver.compress(x);
  CHECK(receiver.decompress(payload) == sender.decompress(payload));
}

TEST_CASE("a state shows its buffers in one order") {
  struct counter : pith::field_visitor {
    std::vector<std::size_t> sizes;
    void visit(void*, std::size_t bytes) override { sizes.push_back(bytes); }
  };
  auto const codec = pith::error_feedback(pith::top_k(0.5));
  auto state = pith::make_state<float>(pith::seq, codec, {10});
  auto seen = counter();
  state.fields(seen);
  CHECK(seen.sizes == std::vector<std::size_t>{8, 40});  // the step, the residual
}

TEST_CASE("a tensor number that randomness has no room for is refused") {
  CHECK_NOTHROW(pith::make_state<float>(pith::seq, pith::qsgd<4>(), {8}, {0, (1u << 24) - 1, 0}));
  CHECK_THROWS_WITH_AS(pith::make_state<float>(pith::seq, pith::qsgd<4>(), {8}, {0, 1u << 24, 0}),
                       "pith::make_state: tensor must be below 2^24, got 16777216", std::invalid_argument);
}

TEST_CASE("a quantizer launches one or two programs beside the one that counts the step, top_k nine and its coder's") {
  using pith::error_feedback;
  // payloads of whole sections: no zeros between them
  for (std::uint64_t const n : {70'016u, 1'000'000u}) {
    CAPTURE(n);
    CHECK(launched(pith::qsgd<8>(), n) == 2);
    CHECK(launched(pith::qsgd<8>(127, 0), n) == 3);
    CHECK(launched(pith::scaled_sign(), n) == 2);
    CHECK(launched(error_feedback(pith::qsgd<8>()), n) == 2);
    CHECK(launched(error_feedback(pith::qsgd<8>(127, 0), pith::unverified), n) == 3);
    CHECK(launched(error_feedback(pith::scaled_sign()), n) == 3);
    CHECK(launched(pith::top_k(0.01), n) == 12);
    CHECK(launched(pith::top_k(0.01, pith::packed_indices()), n) == 11);
    CHECK(launched(error_feedback(pith::top_k(0.01)), n) == 13);
  }
}
