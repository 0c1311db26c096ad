// tests/feedback/fused_test.cpp — feedback in the pass that encodes has the bits of feedback step by step.
#include <pith/adaptor/rated.hpp>
#include <pith/codec/any_chain.hpp>
#include <pith/feedback/no_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/pith.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/stochastic_cast.hpp>

#include <doctest/doctest.h>

#include "../examples/own/chunk_max.hpp"
#include "../examples/own/nearest4.hpp"
#include "support/roundtrip.hpp"

#include <cmath>
#include <cstring>

using namespace support;

namespace {

/// A residual without a source, so that nothing is fused.
template <class Residual>
struct step_by_step : Residual {
  bool has_source() const { return false; }
};

/// One rank's codec, state and payload.
template <class In, class C>
struct rank {
  rank(C c, pith::shape dims)
      : codec(std::move(c)),
        state(pith::make_state<In>(pith::seq, codec, dims)),
        payload(pith::payload_bytes<In>(codec, dims)),
        scratch(pith::workspace_bytes<In>(pith::seq, codec, dims, 4)) {}

  void step(std::vector<In> const& gradient) {
    auto ws = pith::workspace(pith::span(scratch));
    pith::compress(pith::seq, codec, pith::span(gradient), pith::span(payload), state, ws);
    CHECK(ws.high_water() <= scratch.size());
  }
  /// What an exchange of four ranks with this gradient makes of it.
  std::vector<In> exchange(std::vector<In> gradient) {
    auto ws = pith::workspace(pith::span(scratch));
    auto comm = echo_communicator<4>();
    pith::all_reduce_mean(pith::seq, comm, codec, pith::span(gradient), state, ws);
    CHECK(ws.high_water() <= scratch.size());
    return gradient;
  }
  auto residual() {
    auto const& kept = std::get<1>(state.local().each).residual;
    return std::vector(kept.data(), kept.data() + kept.size());
  }

  C codec;
  pith::codec_state<In, C, pith::seq_executor> state;
  std::vector<std::byte> payload, scratch;
};

/// A codec's feedback, fused and step by step.
template <class In, class C, class Residual>
struct both_ways {
  using fused_codec = pith::error_feedback<C, Residual>;
  using slow_codec = pith::error_feedback<C, step_by_step<Residual>>;

  both_ways(C const& codec, pith::shape dims) : fused(fused_codec(codec), dims), slow(slow_codec(codec), dims) {}

  rank<In, fused_codec> fused;
  rank<In, slow_codec> slow;
};

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// With one NaN for all: which of two NaN a product is, compilers choose.
template <class In>
std::vector<In> with_one_nan(std::vector<In> x) {
  for (auto& v : x) {
    if (std::isnan(pith::element_cast<double>(v))) v = pith::element_cast<In>(std::nanf(""));
  }
  return x;
}

/// A gradient of step 0, 1 ...; that of step 3 holds NaN.
template <class In>
std::vector<In> gradient_of(std::uint64_t n, unsigned step) {
  auto x = narrow<In>(normal_vector(n, 700 + step));
  if (step == 3 && n > 0) x[n / 2] = pith::element_cast<In>(std::nanf(""));
  return x;
}

template <class In, class Residual = pith::residual<>, class C>
void agrees_at(C const& codec, pith::shape dims) {
  CAPTURE(dims.n);
  CAPTURE(dims.rows);
  using ways = both_ways<In, C, Residual>;
  auto alone = ways(codec, dims), exchanged = ways(codec, dims);
  for (unsigned step = 0; step < 5; ++step) {
    auto const x = gradient_of<In>(dims.n, step);
    alone.fused.step(x);
    alone.slow.step(x);
    CHECK(same_bits(alone.fused.payload, alone.slow.payload));
    CHECK(same_bits(alone.fused.residual(), alone.slow.residual()));
    CHECK(same_bits(with_one_nan(exchanged.fused.exchange(x)), with_one_nan(exchanged.slow.exchange(x))));
    CHECK(same_bits(exchanged.fused.residual(), exchanged.slow.residual()));
  }
}

template <class In, class Residual = pith::residual<>, class C>
void agrees(C const& codec) {
  for (std::uint64_t const n : {0u, 1u, 7u, 8u, 129u, 1000u, 40000u}) agrees_at<In, Residual>(codec, {n});
}

/// Vectors and small matrices, which are sent as they are; then those whose blocks, slabs and strips have rests.
template <class In>
void agrees_on_matrices(unsigned rank) {
  for (auto const& dims : {pith::shape{0}, pith::shape{7}, pith::shape{16, 4}, pith::shape{31 * 17, 31},
                           pith::shape{150 * 700, 150}, pith::shape{9 * 8300, 9}}) {
    agrees_at<In>(pith::power_sgd(rank), dims);
    agrees_at<In>(pith::one_sided_power_sgd(rank), dims);
  }
}

}  // namespace

TEST_CASE("a quantizer of small buckets keeps the residual in its one pass with the bits of separate passes") {
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

TEST_CASE("a user's quantizer and sparsifier keep the residual in the encoding pass with the bits of separate passes") {
  agrees<float>(nearest4());
  agrees<float>(chunk_max());
  agrees<double>(chunk_max());
  agrees<pith::half>(chunk_max());
  agrees<float>(chunk_max() | nearest4());
  static_assert(pith::detail::fuses_feedback<chunk_max, pith::residual<>, float, pith::seq_executor>);
}

TEST_CASE("the code for several passes is compiled only for codecs and policies that need it") {
  using E = pith::seq_executor;
  using namespace pith::detail;
  using sparse = decltype(pith::top_k(0.01) | pith::qsgd<8>());
  using rotated = decltype(pith::hadamard() | pith::qsgd<8>());
  static_assert(always_encodes_from<pith::qsgd<8>, E> && always_encodes_from<sparse, E>);
  static_assert(!always_encodes_from<rotated, E>);          // a tile may span two blocks
  static_assert(!always_encodes_from<pith::power_sgd, E>);  // lossless for vectors
  static_assert(!always_encodes_from<pith::any_chain<float, E>, E>);
  static_assert(!always_encodes_from<pith::rated<pith::top_k<>>, E>);  // dense at high rates
  static_assert(always_has_source<pith::residual<>> && always_has_source<pith::no_feedback>);
  static_assert(!always_has_source<decltype(pith::residual(0.9, 0.5))> && !always_has_source<pith::own_residual>);
}

TEST_CASE("a quantizer without scales keeps it in its one pass") {
  agrees<float>(pith::natural<8>());
  agrees<double>(pith::natural<9>());
  agrees<pith::half>(pith::natural<8>());
  agrees<float>(pith::stochastic_cast<pith::bfloat16>());
}

TEST_CASE("one_bit keeps the residual in the encoding pass with the bits of separate passes") {
  agrees<float>(pith::one_bit());
  agrees<pith::bfloat16>(pith::one_bit(128));
}

TEST_CASE("a sparsifier keeps unselected values from the pass that reads them, with the bits of separate passes") {
  agrees<float>(pith::top_k(0.01));
  agrees<double>(pith::top_k(0.2));
  agrees<pith::half>(pith::top_k(0.01));
}

TEST_CASE("the error of a quantizer after a sparsifier is kept with the bits of separate passes") {
  agrees<float>(pith::top_k(0.01) | pith::qsgd<8>());
  agrees<double>(pith::top_k(0.1) | pith::scaled_sign());
  agrees<pith::bfloat16>(pith::top_k(0.01) | pith::cast<pith::half>());
  static_assert(pith::detail::fuses_picks<float, pith::seq_executor, pith::ext::residual_source<float>, pith::top_k<>,
                                          pith::hadamard, pith::qsgd<8>>);
  agrees<float>(pith::top_k(0.01) | pith::hadamard(64) | pith::qsgd<8>());
  agrees<double>(pith::top_k(0.1) | pith::random_k(0.5) | pith::qsgd<4>());
}

TEST_CASE("a rotation and a quantizer are one pass") {
  agrees<float>(pith::hadamard() | pith::qsgd<8>());
  agrees<double>(pith::hadamard(64) | pith::scaled_sign(1024));
  agrees<float>(pith::hadamard(64) | pith::qsgd<6>(31, 192));
  agrees<pith::half>(pith::hadamard() | pith::scaled_sign());
}

TEST_CASE_TEMPLATE("products with thin matrices take gradient and residual at once", In, float, double, pith::half,
                   pith::bfloat16) {
  agrees_on_matrices<In>(1);
  agrees_on_matrices<In>(4);
  agrees_on_matrices<In>(6);
}

TEST_CASE_TEMPLATE("a residual of bfloat16 is read and stored in the encoding pass", In, float, double, pith::half,
                   pith::bfloat16) {
  using narrow = pith::residual<pith::bfloat16>;
  using E = pith::seq_executor;
  static_assert(pith::detail::fuses_feedback<pith::qsgd<8>, narrow, In, E>);
  static_assert(!pith::detail::fuses_feedback<pith::top_k<>, narrow, In, E>, "top_k may read p again");
  agrees<In, narrow>(pith::qsgd<8>());
  agrees<In, narrow>(pith::scaled_sign());
  agrees<In, narrow>(pith::natural<8>());
  agrees<In, narrow>(pith::top_k(0.01));
  agrees<In, narrow>(pith::top_k(0.01) | pith::qsgd<8>());
  agrees<In, narrow>(pith::hadamard() | pith::qsgd<8>());
  agrees_at<In, narrow>(pith::power_sgd(4), {150 * 700, 150});
}

TEST_CASE("a sparsifier that reads values again finds them exact, also with a residual of bfloat16") {
  // More values reach the sample's bound than a selection can hold, and half of them are 1 as bfloat16.
  auto x = std::vector<float>(100'000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 1 : 0.999f;
  auto codec = pith::error_feedback(pith::top_k(0.01), pith::residual<pith::bfloat16>());
  auto one = rank<float, decltype(codec)>(codec, {x.size()});
  one.step(x);
  auto values = std::vector<float>(1000);
  std::memcpy(values.data(), one.payload.data(), 4000);
  CHECK(values == std::vector<float>(1000, 1));
  auto const kept = one.residual();
  for (std::size_t i = 0; i < 2000; ++i) CHECK(static_cast<float>(kept[i]) == (i % 2 == 0 ? 0 : 1));
}
