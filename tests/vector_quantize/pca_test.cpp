// tests/vector_quantize/pca_test.cpp — projections on a plane that all ranks share, summed in flight.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/adaptor/rated.hpp>
#include <pith/codec/any_chain.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/codec/chain.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/collective/ring.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/par.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/quantize/summed_terngrad.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/vector_quantize/pca.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "support/conform.hpp"
#include "support/exchanged.hpp"
#include "support/group.hpp"
#include "support/slices.hpp"

using namespace support;
using pith::pca;
using pith::pca_basis;
using pith::slice_samples;

namespace {

pca_basis basis_of(std::size_t n, std::size_t slice, pith::pca_options const& options, pith::slice_order order = {},
                   std::size_t count = 12) {
  auto samples = slice_samples<double>(n, slice, order);
  for (std::size_t t = 0; t < count; ++t) samples.add(pith::span<double const>(correlated(n, slice, 4, t)));
  return pca_basis::fit(samples, options);
}

/// The mean of some tensors, in double.
std::vector<double> mean_of(std::vector<std::vector<double>> const& x) {
  auto mean = std::vector<double>(x[0].size());
  for (auto const& own : x) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += own[i] / static_cast<double>(x.size());
  }
  return mean;
}

template <class In>
std::vector<std::vector<In>> gradients_of(std::size_t n, std::size_t slice, unsigned ranks, std::uint64_t step = 0) {
  auto x = std::vector<std::vector<In>>();
  for (unsigned r = 0; r < ranks; ++r) x.push_back(narrow<In>(correlated(n, slice, 4, 100 + 10 * step + r)));
  return x;
}
template <class In>
std::vector<double> true_mean(std::vector<std::vector<In>> const& x) {
  auto wide = std::vector<std::vector<double>>();
  for (auto const& own : x) wide.push_back(widen(own));
  return mean_of(wide);
}

constexpr auto kernel = pith::conv_shape{6, 5, 3, 3};

}  // namespace

TEST_CASE("the payload of a worked example is its component, which decodes to a point on the line") {
  // A plane along (0.6, 0.8) through (1, 2): of (4, 6) the component is 7.2, and of the mean 2.2.
  auto samples = slice_samples<double>(2, 2);
  for (double const t : {-1.0, 0.0, 1.0}) samples.add(pith::span<double const>(std::vector{1 + 0.6 * t, 2 + 0.8 * t}));
  auto t = trial<double, pca<>>(pca(pca_basis::fit(samples)), {2});
  auto const payload = t.compress({4, 6});
  REQUIRE(payload.size() == sizeof(double));
  double z = 0;
  std::memcpy(&z, payload.data(), sizeof z);
  CHECK(z == doctest::Approx(7.2).epsilon(1e-14));
  auto const y = t.decompress(payload);
  CHECK(y[0] == doctest::Approx(1 + 5 * 0.6).epsilon(1e-14));  // 5 = 7.2 - 2.2
  CHECK(y[1] == doctest::Approx(2 + 5 * 0.8).epsilon(1e-14));
}

TEST_CASE("ranks receive the projection of their mean in double, for any slice size, order and centring") {
  // Sums of 24 + 7 products of numbers below 16, and as many of the oracle.
  auto const bound = 1e-12;
  struct {
    std::size_t n, slice;
    pith::slice_order order;
    pith::centring about;
  } const cases[] = {{96, 24, {}, pith::centring::each_slice},
                     {100, 24, {}, pith::centring::each_slice},
                     {270, 30, kernel.order(), pith::centring::each_slice},
                     {270, 60, kernel.order(), pith::centring::each_slice},
                     {270, 17, kernel.order(), pith::centring::shared},
                     {1, 24, {}, pith::centring::shared},
                     {24, 24, {}, pith::centring::each_slice}};
  for (auto const& c : cases) {
    CAPTURE(c.n);
    CAPTURE(c.slice);
    auto const basis =
        std::make_shared<pca_basis const>(basis_of(c.n, c.slice, {.components = 7, .about = c.about}, c.order));
    for (unsigned const ranks : {1u, 2u, 3u, 4u}) {
      auto g = group<double, pca<>>(pca(basis), {c.n}, ranks);
      auto const x = gradients_of<double>(c.n, c.slice, ranks);
      auto const expected = projected(*basis, true_mean(x));
      auto const means = g.all_reduce(x);
      for (auto const& mean : means) CHECK(worst(mean, expected) <= bound);
      CHECK(std::ranges::all_of(means, [&](auto const& mean) { return mean == means[0]; }));
    }
  }
}

TEST_CASE_TEMPLATE("narrow elements are projected in float", In, float, pith::half, pith::bfloat16) {
  auto const basis = std::make_shared<pca_basis const>(basis_of(270, 30, {.components = 7}, kernel.order()));
  for (unsigned const ranks : {1u, 2u, 4u}) {
    auto g = group<In, pca<>>(pca(basis), {270}, ranks);
    auto const x = gradients_of<In>(270, 30, ranks);
    // Numbers stay below 16. x / N is exact for powers of two; U, z and the decoded slice are rounded to float, which a
    // sum of 30 products of |x| |u| <= 16 sqrt(30) and one of 7 |z| <= 88 magnify; then there is one rounding to In.
    auto const bound = (2 * 30 * 16 * std::sqrt(30.0) + 3 * 7 * 88) * 0x1p-24 + 16 * roundoff<In>();
    CHECK(worst(widen(g.all_reduce(x)[0]), projected(*basis, true_mean(x))) <= bound);
  }
}

TEST_CASE("pca with all directions is lossless up to rounding") {
  // 32 samples of 16 elements; the tail's 4 zeros have no variance, so that 16 directions hold all.
  auto const basis = basis_of(60, 16, {.lambda = 0}, {}, 40);
  REQUIRE(basis.components() == 16);
  auto t = trial<double, pca<>>(pca(basis), {60});
  auto const x = correlated(60, 16, 4, 77);
  CHECK(worst(t.roundtrip(x), x) <= 1e-12);
}

TEST_CASE("the mean of the samples, moved or not, decodes to itself") {
  auto const basis = basis_of(100, 24, {.components = 5});
  auto mean = basis.mean();
  mean.resize(100);
  auto t = trial<double, pca<>>(pca(basis), {100});
  CHECK(worst(t.roundtrip(mean), mean) <= 1e-13);
}

TEST_CASE("any input of any type: nothing, little, slices and one element more or less") {
  auto samples = slice_samples<double>(16, 16);
  for (unsigned t = 0; t < 8; ++t) {  // each with its opposite: the mean is zero, so that zeros stay zeros
    auto x = normal_vector(16, 60 + t);
    samples.add(pith::span<double const>(x));
    for (auto& v : x) v = -v;
    samples.add(pith::span<double const>(x));
  }
  auto const basis = pca_basis::fit(samples, {.components = 5, .about = pith::centring::shared});
  conforms(pca(basis), {{0}, {1}, {15}, {16}, {17}, {16 * 9 + 3}, {16 * 40}});
}

TEST_CASE("NaN and infinity spoil their slice and no other") {
  auto const basis = basis_of(72, 24, {.components = 3});
  for (double const odd : {not_a_number, infinity}) {
    auto g = group<float, pca<>>(pca(basis), {72}, 2);
    auto x = gradients_of<float>(72, 24, 2);
    auto const sound = g.all_reduce(x)[0];
    x[1][30] = static_cast<float>(odd);
    for (auto const& mean : g.all_reduce(x)) {
      for (std::size_t i = 0; i < 72; ++i) {
        if (i / 24 == 1) CHECK(!std::isfinite(mean[i]));
        if (i / 24 != 1) CHECK(mean[i] == sound[i]);
      }
    }
  }
}

TEST_CASE("the sum travels: d numbers a slice, float for all but double") {
  auto const c = pca(basis_of(100, 24, {.components = 5}));
  CHECK(c.output_shape({100}).n == 25);
  CHECK(pith::payload_bytes<float>(c, {100}) == 25 * sizeof(float));
  CHECK(pith::payload_bytes<pith::half>(c, {100}) == 25 * sizeof(float));
  CHECK(pith::payload_bytes<double>(c, {100}) == 25 * sizeof(double));
  CHECK(pith::payload_bytes<float>(c, {0}) == 0);
  auto const moves = pith::detail::transfer_of<float>(c, 0, {100}, 4);
  CHECK(moves == pith::transfer{pith::transport::all_reduce_sum, pith::element_kind::f32, 25});
  auto state = pith::make_state<float>(pith::seq, c, {100});
  auto count = pith::detail::field_counter();
  state.replicated().fields(count);
  CHECK(count.bytes == 0);
}

TEST_CASE("bases differ in the name, and tensors that a basis does not fit are refused") {
  auto const a = pca(basis_of(100, 24, {.components = 5})), b = pca(basis_of(100, 24, {.components = 5}, {}, 13));
  CHECK(a.name().starts_with("pca(24,5,"));
  CHECK(a.name() != b.name());
  CHECK(a.name() == pca(pca_basis::load(a.basis().save())).name());
  CHECK_THROWS_WITH_AS(pith::make_state<float>(pith::seq, a, {200}),
                       "pith::pca: the tensor must have 5 slices of 24 elements, got 200 elements",
                       std::invalid_argument);
  CHECK_THROWS_AS(pith::payload_bytes<float>(pca(basis_of(270, 30, {}, kernel.order())), {269}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(pca(std::shared_ptr<pca_basis const>()), "pith::pca: basis must not be null",
                       std::invalid_argument);
}

TEST_CASE("equal bytes on threads") {
  auto const basis = basis_of(270, 17, {.components = 6}, kernel.order());
  auto const threads = pith::par();
  CHECK(exchanged<float>(threads, pca(basis), {270}) == exchanged<float>(pith::seq, pca(basis), {270}));
}

namespace {

/// Sum of received means + mean residual = sum of the true means, after some steps of numbers below `most`.
template <class C>
void conserves(C const& codec, std::size_t n, unsigned ranks, double bound, double most = 64) {
  auto const fed = pith::error_feedback(codec, pith::unverified);
  auto g = group<float, std::remove_const_t<decltype(fed)>>(fed, {n}, ranks);
  auto owed = std::vector<double>(n);
  for (unsigned step = 0; step < 5; ++step) {
    auto const x = gradients_of<float>(n, 24, ranks, step);
    auto const mean = true_mean(x), received = widen(g.all_reduce(x)[0]);
    for (auto const v : received) CHECK(std::abs(v) <= most);
    for (std::size_t i = 0; i < n; ++i) owed[i] += mean[i] - received[i];
  }
  auto kept_mean = std::vector<double>(n);
  for (unsigned r = 0; r < ranks; ++r) {
    auto const own = kept(policy_state(g.local(r)).residual);
    for (auto const v : own) CHECK(std::abs(v) <= most);
    for (std::size_t i = 0; i < n; ++i) kept_mean[i] += own[i] / ranks;
  }
  CHECK(worst(owed, kept_mean) <= bound);
  CHECK(square(kept_mean) > 1);  // there is something to conserve
}

}  // namespace

TEST_CASE("the received means and the residuals of feedback on an affine codec add up to the gradients") {
  auto const basis = std::make_shared<pca_basis const>(basis_of(100, 24, {.components = 4}));
  // Numbers stay below 64; a step rounds some ten of them to float on each rank, N (D(z) - D(0)) N times as large.
  for (unsigned const ranks : {1u, 2u, 3u, 4u}) {
    auto const bound = 5 * 10 * ranks * 64 * 0x1p-24;
    conserves(pca(basis), 100, ranks, bound);
    conserves(pca(basis) | pith::cast<float>(), 100, ranks, bound);
    conserves(pca(basis) | pith::qsgd<8>(), 100, ranks, bound);
  }
}

TEST_CASE("wrappers of an affine codec are affine, and divide tensors at its slices") {
  auto const basis = std::make_shared<pca_basis const>(basis_of(100, 24, {.components = 4}));
  auto const chain = pca(basis) | pith::random_k(0.5);
  conserves(pith::rated(chain), 100, 3, 5 * 10 * 3 * 256 * 0x1p-24, 256);
  CHECK(pith::detail::part_granule(chain) == 24);
  CHECK(pith::detail::part_granule(pith::rated(chain)) == 24);
  CHECK(pith::detail::part_granule(pith::bypass(pca(basis), 8)) == 24);
  CHECK(pith::detail::part_granule(pith::any_codec<float>(pca(basis) | pith::cast<pith::half>())) == 24);
}

TEST_CASE("feedback with sums in half conserves the gradients up to the rounding of the sums") {
  // A sum of N halves below 64 rounds N - 1 times to 2^-5 at most, which D does not stretch: sqrt(4) of 4 components.
  auto const basis = std::make_shared<pca_basis const>(basis_of(100, 24, {.components = 4}));
  for (unsigned const ranks : {2u, 4u})
    conserves(pca(basis) | pith::cast<pith::half>(), 100, ranks, 5 * 2 * ranks * 0x1p-5);
}

TEST_CASE("a rank's own part is its own projection") {
  auto const basis = std::make_shared<pca_basis const>(basis_of(100, 24, {.components = 4}));
  auto const fed = pith::error_feedback(pca(basis), pith::unverified);
  auto g = group<double, std::remove_const_t<decltype(fed)>>(fed, {100}, 3);
  auto const x = gradients_of<double>(100, 24, 3);
  static_cast<void>(g.all_reduce(x));
  for (unsigned r = 0; r < 3; ++r)
    CHECK(worst(kept(policy_state(g.local(r)).residual), minus(x[r], projected(*basis, x[r]))) <= 1e-12);
}

TEST_CASE("a chain that is known at run time only is affine as its stages are") {
  using stage = pith::any_stage<float, pith::seq_executor>;
  auto const basis = std::make_shared<pca_basis const>(basis_of(100, 24, {.components = 4}));
  auto const chain = pith::any_chain<float, pith::seq_executor>({stage(pca(basis)), stage(pith::cast<float>())});
  CHECK(chain.decodes_affinely());
  CHECK(pith::capabilities_of(chain, {100}).affine);
  CHECK(pith::capabilities_of(pca(basis) | pith::qsgd<4>(), {100}).affine);
  CHECK(!pith::capabilities_of(pith::qsgd<4>(), {100}).affine);
  conserves(chain, 100, 3, 5 * 10 * 3 * 64 * 0x1p-24);
}

TEST_CASE("a ring that re-encodes at each rank yields the projection of the mean, and a mean per slice is refused") {
  auto const basis =
      std::make_shared<pca_basis const>(basis_of(4096, 64, {.components = 9, .about = pith::centring::shared}));
  for (unsigned const ranks : {1u, 2u, 4u}) {
    auto const x = gradients_of<double>(4096, 64, ranks);
    auto g = group<double, pith::ring<pca<>>>(pith::ring(pca(basis)), {4096}, ranks);
    CHECK(worst(g.all_reduce(x)[0], projected(*basis, true_mean(x))) <= 1e-12);
  }
  CHECK_THROWS_AS(pith::make_state<float>(pith::seq, pith::ring(pca(basis_of(4096, 64, {.components = 9}))), {4096}),
                  std::invalid_argument);
}

TEST_CASE("quantizers after pca yield equal means on all ranks, and more bits give smaller errors") {
  auto const basis = std::make_shared<pca_basis const>(basis_of(96, 24, {.components = 6}));
  auto const x = gradients_of<float>(96, 24, 3);
  auto const exact = projected(*basis, true_mean(x));
  auto const off = [&](auto const& codec) {
    auto g = group<float, std::remove_cvref_t<decltype(codec)>>(codec, {96}, 3);
    auto const means = g.all_reduce(x);
    CHECK(std::ranges::all_of(means, [&](auto const& mean) { return mean == means[0]; }));
    return std::sqrt(square(minus(widen(means[0]), exact)));
  };
  // 24 numbers below 88 in a bucket of 128: a level is at most |z| / s (1 + 2^-15) wide, so that the mean of three is
  // off by less than sqrt(24) of them, and U does not stretch.
  auto const level = [](double s) { return std::sqrt(24.0) * std::sqrt(24.0) * 88 / s * (1 + 0x1p-15) + 1e-3; };
  CHECK(off(pca(basis) | pith::qsgd<8>()) <= level(127));
  CHECK(off(pca(basis) | pith::qsgd<4>()) <= level(7));
  CHECK(off(pca(basis) | pith::qsgd<8>()) < off(pca(basis) | pith::qsgd<4>()));
  CHECK(off(pca(basis) | pith::cast<pith::bfloat16>()) < off(pca(basis) | pith::qsgd<4>()));
}

TEST_CASE("levels of components sum in flight: a byte each for up to 127 ranks") {
  auto const basis = std::make_shared<pca_basis const>(basis_of(100, 24, {.components = 5}));
  auto const ternary = pca(basis) | pith::summed_terngrad();
  static_assert(pith::collective<decltype(ternary), float, pith::seq_executor>);
  auto const moves = [](auto const& codec, unsigned round, unsigned ranks) {
    return pith::detail::transfer_of<float>(codec, round, {100}, ranks);
  };
  REQUIRE(ternary.rounds({100}, 4) == 2);
  CHECK(moves(ternary, 0, 4) == pith::transfer{pith::transport::all_reduce_max, pith::element_kind::f32, 1});
  CHECK(moves(ternary, 1, 127) == pith::transfer{pith::transport::all_reduce_sum, pith::element_kind::i8, 25});
  CHECK(moves(ternary, 1, 128) == pith::transfer{pith::transport::all_reduce_sum, pith::element_kind::i32, 25});
  auto const votes = pca(basis) | pith::summed_sign();
  CHECK(votes.rounds({100}, 4) == 1);
  CHECK(moves(votes, 0, 4) == pith::transfer{pith::transport::all_reduce_sum, pith::element_kind::i8, 25});
  static_assert(!pith::collective<decltype(pca(basis) | pith::terngrad()), float, pith::seq_executor>);
}

namespace {

/// The received mean is decoded from the mean of the components.
template <class In, class Tail>
void sums_components(Tail const& tail, std::size_t n, unsigned ranks) {
  using A = pith::accum<In>;
  auto const basis = std::make_shared<pca_basis const>(basis_of(n, 24, {.components = 5}));
  auto const x = gradients_of<In>(n, 24, ranks);
  auto t = trial<In, pca<>>(pca(basis), {n});
  auto z = std::vector<std::vector<A>>();
  for (auto const& own : x) {
    auto const payload = t.compress(own);
    z.emplace_back(payload.size() / sizeof(A));
    std::memcpy(z.back().data(), payload.data(), payload.size());
  }
  auto const alone = pith::identity() | tail;
  auto const mean = group<A, std::remove_const_t<decltype(alone)>>(alone, {z[0].size()}, ranks).all_reduce(z)[0];
  auto payload = t.compress(x[0]);
  std::memcpy(payload.data(), mean.data(), payload.size());
  auto const behind = pca(basis) | tail;
  for (auto const& own : group<In, std::remove_const_t<decltype(behind)>>(behind, {n}, ranks).all_reduce(x)) {
    CHECK(own.size() == n);
    CHECK(std::memcmp(own.data(), t.decompress(payload).data(), n * sizeof(In)) == 0);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("pca before a summed quantizer decodes the exchanged mean of the components alone, bit for bit", In,
                   float, double, pith::half, pith::bfloat16) {
  for (unsigned const ranks : {1u, 2u, 3u, 4u}) {
    for (std::size_t const n : {100u, 96u, 1u}) {
      sums_components<In>(pith::summed_terngrad(), n, ranks);
      sums_components<In>(pith::summed_sign(), n, ranks);
    }
  }
}

TEST_CASE("feedback on summed levels conserves too") {
  // Numbers stay below 1,024; a step rounds some ten of them to float on each rank.
  auto const basis = std::make_shared<pca_basis const>(basis_of(100, 24, {.components = 4}));
  for (unsigned const ranks : {1u, 2u, 3u, 4u}) {
    auto const bound = 5 * 10 * ranks * 1024 * 0x1p-24;
    conserves(pca(basis) | pith::summed_terngrad(), 100, ranks, bound, 1024);
    conserves(pca(basis) | pith::cast<float>() | pith::summed_terngrad(), 100, ranks, bound, 1024);
  }
  conserves(pca(basis) | pith::summed_sign(), 100, 1, 5 * 10 * 1024 * 0x1p-24, 1024);
}

TEST_CASE("an exchange sums levels of components, and nothing is gathered") {
  auto const basis = std::make_shared<pca_basis const>(basis_of(100, 24, {.components = 5}));
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"conv", {100}}},
                                               pith::any_codec<float, pith::seq_executor>(pith::error_feedback(
                                                   pca(basis) | pith::summed_terngrad(), pith::unverified)));
    CHECK(exchange.traffic().gathered == 0);
    CHECK(exchange.traffic().summed == 8 + 32);  // a float and 25 bytes, each as far as a multiple of 8
    auto g = gradients_of<float>(100, 24, 3)[comm.rank()];
    exchange.all_reduce_mean(g);
    for (auto const v : g) CHECK(std::isfinite(v));
  });
}

TEST_CASE("NaN anywhere leaves no number, since all components share a scale") {
  auto const c = pca(basis_of(72, 24, {.components = 3})) | pith::summed_terngrad();
  auto g = group<float, std::remove_const_t<decltype(c)>>(c, {72}, 2);
  auto x = gradients_of<float>(72, 24, 2);
  x[1][30] = static_cast<float>(not_a_number);
  for (auto const& mean : g.all_reduce(x)) CHECK(std::ranges::none_of(mean, [](float v) { return std::isfinite(v); }));
}
