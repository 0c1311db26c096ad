// tests/feedback/fused_test.cpp — feedback in the pass that encodes has the bits of feedback step by step.
#include <pith/pith.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/one_bit.hpp>

#include <doctest/doctest.h>

#include "support/vectors.hpp"

#include <cmath>
#include <cstring>

using namespace support;

namespace {

/// The residual without a source, so that nothing is fused.
struct step_by_step : pith::residual {
  using residual::residual;
  bool has_source() const { return false; }
};

/// One rank's codec, state and payload.
template <class In, class C>
struct rank {
  rank(C c, pith::shape dims)
      : codec(std::move(c)),
        state(pith::make_state<In>(pith::seq, codec, dims)),
        payload(pith::payload_bytes<In>(codec, dims)),
        scratch(pith::workspace_bytes<In>(pith::seq, codec, dims)) {}

  void step(std::vector<In> const& gradient) {
    auto ws = pith::workspace(pith::span(scratch));
    pith::compress(pith::seq, codec, pith::span(gradient), pith::span(payload), state, ws);
    CHECK(ws.high_water() <= scratch.size());
  }
  auto residual() {
    auto const& kept = std::get<1>(state.local().each).residual;
    return std::vector<pith::accum<In>>(kept.data(), kept.data() + kept.size());
  }

  C codec;
  pith::codec_state<In, C, pith::seq_executor> state;
  std::vector<std::byte> payload, scratch;
};

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class In, class C>
void agrees(C const& codec) {
  for (std::uint64_t const n : {0, 1, 7, 8, 129, 1000, 40000}) {
    CAPTURE(n);
    auto fused = rank<In, pith::error_feedback<C>>(pith::error_feedback<C>(codec), {n});
    using slow_codec = pith::error_feedback<C, step_by_step>;
    auto slow = rank<In, slow_codec>(slow_codec(codec, step_by_step()), {n});
    for (unsigned step = 0; step < 5; ++step) {
      auto x = narrow<In>(normal_vector(n, 700 + step));
      if (step == 3 && n > 0) x[n / 2] = pith::element_cast<In>(std::nanf(""));
      fused.step(x);
      slow.step(x);
      CHECK(same_bits(fused.payload, slow.payload));
      CHECK(same_bits(fused.residual(), slow.residual()));
    }
  }
}

}  // namespace

TEST_CASE("a quantizer of small buckets keeps what it did not send in its one pass") {
  agrees<float>(pith::qsgd<8>());
  agrees<double>(pith::qsgd<6>(31, 264));
  agrees<pith::half>(pith::qsgd<8>());
  agrees<pith::bfloat16>(pith::scaled_sign(128));
}

TEST_CASE("a quantizer of large buckets keeps it in its last pass") {
  agrees<float>(pith::scaled_sign());
  agrees<float>(pith::scaled_sign(1024));
  agrees<double>(pith::scaled_sign());
  agrees<pith::half>(pith::scaled_sign());
}

TEST_CASE("a quantizer without scales keeps it in its one pass") {
  agrees<float>(pith::natural<8>());
  agrees<double>(pith::natural<9>());
  agrees<pith::half>(pith::natural<8>());
}

TEST_CASE("two means keep what they did not send") {
  agrees<float>(pith::one_bit());
  agrees<pith::bfloat16>(pith::one_bit(128));
}

TEST_CASE("what a selection does not send stays from the pass that reads") {
  agrees<float>(pith::top_k(0.01));
  agrees<double>(pith::top_k(0.2));
  agrees<pith::half>(pith::top_k(0.01));
}

TEST_CASE("what a quantizer loses of a selection is kept behind it") {
  agrees<float>(pith::top_k(0.01) | pith::qsgd<8>());
  agrees<double>(pith::top_k(0.1) | pith::scaled_sign());
  agrees<pith::bfloat16>(pith::top_k(0.01) | pith::cast<pith::half>());
}

TEST_CASE("a rotation and a quantizer are one pass") {
  agrees<float>(pith::hadamard() | pith::qsgd<8>());
  agrees<double>(pith::hadamard(64) | pith::scaled_sign(1024));
  agrees<float>(pith::hadamard(64) | pith::qsgd<6>(31, 192));
  agrees<pith::half>(pith::hadamard() | pith::scaled_sign());
}
