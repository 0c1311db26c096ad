// tests/core/float_environment_test.cpp — the same bytes, however the caller has set its floating point unit.
#include <pith/codec/compress.hpp>
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/scaled_sign.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"
#include "support/vectors.hpp"

#include <cfenv>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

/// Normal and subnormal numbers.
std::vector<float> tiny_and_large(std::size_t n) {
  auto x = support::narrow<float>(support::normal_vector(n, 3));
  for (std::size_t i = 0; i < n; ++i) x[i] *= i % 3 == 0 ? 0x1p-130f : i % 3 == 1 ? 0x1p-120f : 1;
  return x;
}

/// The payloads of three steps and their decoded tensors.
template <class E, class C>
std::vector<std::byte> bytes_of(E const& exec, C const& codec, std::vector<float> const& x) {
  auto state = pith::make_state<float>(exec, codec, {x.size(), 10}, {7, 1, 0});
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, {x.size(), 10}));
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(exec, codec, {x.size(), 10}));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto y = x;
  auto all = std::vector<std::byte>();
  for (int step = 0; step < 3; ++step) {
    pith::compress(exec, codec, pith::span<float const>(x), pith::span<std::byte>(payload), state, ws);
    pith::decompress(exec, codec, pith::span<std::byte const>(payload), pith::span<float>(y), state, ws);
    auto const* const decoded = reinterpret_cast<std::byte const*>(y.data());
    all.insert(all.end(), payload.begin(), payload.end());
    all.insert(all.end(), decoded, decoded + y.size() * sizeof(float));
  }
  return all;
}

/// With each of the settings that an engine may have made, and then as it was.
template <class F>
void in_each_environment(F const& f) {
  for (auto const rounding : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
    f("rounding " + std::to_string(rounding));
    CHECK(std::fegetround() == rounding);
    std::fesetround(FE_TONEAREST);
  }
#if defined(__x86_64__)
  auto const usual = _mm_getcsr();
  constexpr auto flush = 0x8000u, zeros = 0x40u, traps = 0x1e80u & ~0x1000u;
  for (auto const control : {usual | flush, usual | zeros, usual | flush | zeros, usual & ~traps}) {
    _mm_setcsr(control);
    f("MXCSR " + std::to_string(control));
    CHECK((_mm_getcsr() & ~0x3fu) == (control & ~0x3fu));
    _mm_setcsr(usual);
  }
#endif
}

/// The texts of the registry and some chains. Exchanges among several ranks are left out.
std::vector<std::string> all_texts() {
  auto texts = std::vector<std::string>{"hadamard|qsgd<4>", "ef(top_k(0.1)|qsgd<8>)", "ef(power_sgd(2))"};
  auto const add = [&](auto const& methods) {
    for (auto const& method : methods)
      texts.insert(texts.end(), method.texts.begin(), method.texts.begin() + method.examples());
  };
  add(pith::stage_listings);
  add(pith::policy_listings);
  return texts;
}

}  // namespace

TEST_CASE("flushed subnormals, other roundings and traps of the caller change no byte") {
  auto const x = tiny_and_large(5000);
  for (auto const& text : all_texts()) {
    CAPTURE(text);
    auto const codec = pith::parse<float>(text);
    auto const expected = bytes_of(pith::seq, codec, x);
    in_each_environment([&](std::string const& environment) {
      CAPTURE(environment);
      CHECK(bytes_of(pith::seq, codec, x) == expected);
    });
  }
}

TEST_CASE("threads that were started before that compute as their caller") {
  auto const x = tiny_and_large(200'000);
  auto pool = pith::thread_pool(3);
  auto const exec = pith::par(pool);
  using any = pith::any_codec<float, std::decay_t<decltype(exec)>>;
  auto const codec = any(pith::error_feedback(pith::scaled_sign(1024)));
  auto const expected = bytes_of(pith::seq, pith::error_feedback(pith::scaled_sign(1024)), x);
  in_each_environment([&](std::string const& environment) {
    CAPTURE(environment);
    CHECK(bytes_of(exec, codec, x) == expected);
  });
}
