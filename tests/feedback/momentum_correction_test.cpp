// tests/feedback/momentum_correction_test.cpp — the momentum of the residual, and clipping before it.
#include <pith/adaptor/identity.hpp>
#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

#include "support/conform.hpp"
#include "support/group.hpp"

using namespace support;
using pith::clipping;
using pith::error_feedback;
using pith::momentum_correction;

namespace {

template <class C>
using corrected = error_feedback<C, momentum_correction>;

template <class In, class C>
trial<In, corrected<C>> corrects(C const& codec, momentum_correction const& policy, pith::shape dims) {
  return trial<In, corrected<C>>(corrected<C>(codec, policy, pith::unverified), dims);
}

/// One element of the recursion in double, with a bound on how far the policy's own may be from it.
struct momentum_oracle {
  double m, u = 0, error = 0;
  bool nesterov, masks;

  /// What a gradient adds to v, which becomes p; `eps` rounds.
  double add(double g, double v, double eps) {
    auto const grown = m * (u + g), added = nesterov ? grown + g : u + g;
    auto const rounded = eps * (4 * (std::abs(u) + std::abs(g)) + 2 * (std::abs(v) + std::abs(added)));
    before = {error + rounded, nesterov ? grown : m * added};
    return added;
  }
  void keep(bool sent, double eps) {
    auto const stays = !(masks && sent);
    u = stays ? before.next : 0;
    error = stays ? m * before.error + 2 * eps * std::abs(u) : 0;
  }
  struct {
    double error, next;
  } before = {};
};

/// Sum of sent + v = sum of u over 12 steps, some with NaN or infinity; the bound counts the roundings of each step.
template <class In, class C>
void conserves(C const& codec, pith::momentum_options const& options, pith::shape dims, bool collectively) {
  CAPTURE(codec.name());
  CAPTURE(dims.n);
  using A = pith::accum<In>;
  auto const n = static_cast<std::size_t>(dims.n);
  auto const eps = roundoff<A>();
  auto t = corrects<In>(codec, momentum_correction(0.875, options), dims);
  auto const masks = options.masks && !codec.is_lossless(dims);
  auto oracle = std::vector<momentum_oracle>(n, {0.875, 0, 0, options.nesterov, masks});
  auto given = std::vector<double>(n), sent = given, v = given, bound = given;
  for (std::uint64_t step = 1; step <= 12; ++step) {
    auto g = narrow<In>(normal_vector(n, step));
    if (step % 4 == 2) g[n / 3] = pith::element_cast<In>(step % 8 == 2 ? not_a_number : infinity);
    auto const x = widen(g), y = widen(collectively ? t.all_reduce(g) : t.roundtrip(g));
    auto const now = kept(policy_state(t.state().local()).residual);
    unsigned changed = 0, lost = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) {
        changed += now[i] != v[i];
        continue;
      }
      auto& of = oracle[i];
      auto const added = of.add(x[i], v[i], eps);
      given[i] += added, sent[i] += y[i];
      bound[i] += of.before.error + eps * std::abs(now[i]) + (roundoff<In>() + eps) * std::abs(y[i]);
      bound[i] += 4 * 0x1p-53 * (std::abs(given[i]) + std::abs(sent[i])) + (sizeof(In) == 2 ? 0x1p-25 : 0x1p-149);
      of.keep(y[i] != 0, eps);
      lost += !(std::abs(sent[i] + now[i] - given[i]) <= bound[i] * (1 + 0x1p-20));
    }
    CHECK(changed == 0);
    CHECK(lost == 0);
    v = now;
  }
}

template <class In, class C>
void conserves_in_all_forms(C const& codec) {
  for (auto const& dims : {pith::shape{1}, pith::shape{129}, pith::shape{300, 15}}) {
    conserves<In>(codec, {}, dims, false);
    conserves<In>(codec, {.masks = false}, dims, true);
    conserves<In>(codec, {.nesterov = true}, dims, true);
    conserves<In>(codec, {.nesterov = true, .masks = false}, dims, false);
  }
}

/// Six gradients of eighths, which with a momentum of a half stay exact in float.
std::vector<float> eighths(unsigned step) {
  auto g = std::vector<float>(20);
  for (unsigned i = 0; i < g.size(); ++i) g[i] = static_cast<float>(static_cast<int>((i * 7 + step * 5) % 33) - 16) / 8;
  return g;
}

/// Six steps of `codec` are those of SGD with momentum 1/2, element by element.
template <class C>
void is_momentum_sgd(C const& codec, pith::momentum_options const& options, pith::shape dims = {20}) {
  CAPTURE(codec.name());
  auto t = corrects<float>(codec, momentum_correction(0.5, options), dims);
  auto u = std::vector<float>(20), wanted = u;
  for (unsigned step = 0; step < 6; ++step) {
    auto const g = eighths(step);
    for (std::size_t i = 0; i < g.size(); ++i) {
      u[i] = 0.5f * u[i] + g[i];
      wanted[i] = options.nesterov ? g[i] + 0.5f * u[i] : u[i];
    }
    // Nesterov's u comes back through a division by three.
    auto const y = step % 2 == 0 ? t.all_reduce(g) : t.roundtrip(g);
    for (std::size_t i = 0; i < g.size(); ++i)
      CHECK(std::abs(y[i] - wanted[i]) <= (options.nesterov ? 0x1p-21f : 0.0f));
  }
}

std::vector<double> clipped(clipping const& how, std::vector<double> const& g) {
  auto const x = narrow<float>(g);
  auto y = std::vector<float>(g.size());
  auto memory = std::vector<std::byte>(how.scratch_bytes({g.size()}) + 128);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  how.apply(pith::context<float, pith::seq_executor>{pith::seq, {}, {g.size()}, ws}, x.data(), y.data());
  return widen(y);
}

}  // namespace

TEST_CASE("an unsent entry gathers momentum and a sent entry loses it in three steps by hand") {
  // Of two entries the larger one is sent: v = (1, 3), then u = (1.5, 1) and v = (2.5, 1), then u = (0, 0.5).
  auto t = corrects<float>(pith::top_k(0.5), momentum_correction(0.5), {2});
  CHECK(t.roundtrip(of({1, 3})) == of({0, 3}));
  CHECK(kept(policy_state(t.state().local()).residual) == std::vector<double>{1, 0});
  CHECK(kept(policy_state(t.state().local()).momentum) == std::vector<double>{0.5, 0});
  CHECK(t.roundtrip(of({1, 1})) == of({2.5, 0}));
  CHECK(t.roundtrip(of({0, 0})) == of({0, 1.5}));
}

TEST_CASE_TEMPLATE("sparsifiers conserve the sum of momenta", In, float, double, pith::half, pith::bfloat16) {
  conserves_in_all_forms<In>(pith::top_k(0.1));
}

TEST_CASE_TEMPLATE("chains, quantizers, low rank and lossless codecs conserve the sum of momenta", In, float, double) {
  conserves_in_all_forms<In>(pith::top_k(0.1) | pith::qsgd<8>());
  conserves_in_all_forms<In>(pith::scaled_sign());
  conserves_in_all_forms<In>(pith::power_sgd(1));
  conserves_in_all_forms<In>(pith::identity());
}

TEST_CASE("all sent and nothing masked is SGD with momentum") {
  is_momentum_sgd(pith::top_k(1), {.masks = false});
  is_momentum_sgd(pith::top_k(1), {.nesterov = true, .masks = false});
}

TEST_CASE("all sent and masked is SGD without") {
  auto t = corrects<float>(pith::top_k(1), momentum_correction(0.5), {20});
  for (unsigned step = 0; step < 6; ++step) CHECK(t.roundtrip(eighths(step)) == eighths(step));
}

TEST_CASE("momentum correction with a lossless codec masks nothing and equals SGD with momentum") {
  is_momentum_sgd(pith::identity(), {});
  is_momentum_sgd(pith::identity(), {.nesterov = true});
  is_momentum_sgd(pith::power_sgd(4), {}, {20, 2});
}

TEST_CASE("regression against the reference: a buffer that the caller overwrites is not remembered") {
  auto a = corrects<float>(pith::top_k(0.1), momentum_correction(0.9), {20});
  auto b = corrects<float>(pith::top_k(0.1), momentum_correction(0.9), {20});
  auto g = eighths(0);
  CHECK(a.compress(g) == b.compress(eighths(0)));
  g = std::vector<float>(20, 1e6f);
  for (unsigned step = 1; step < 4; ++step) CHECK(a.compress(eighths(step)) == b.compress(eighths(step)));
}

TEST_CASE("a NaN leaves the residual and the momentum of its element unchanged") {
  auto t = corrects<float>(pith::top_k(0.5), momentum_correction(0.5), {2});
  t.roundtrip(of({1, 3}));
  t.roundtrip(of({not_a_number, 2}));
  CHECK(kept(policy_state(t.state().local()).residual) == std::vector<double>{1, 2});
  CHECK(kept(policy_state(t.state().local()).momentum) == std::vector<double>{0.5, 1});
}

TEST_CASE("zeros stay zeros, and any input of any size and type is taken") {
  conforms(error_feedback(pith::top_k(0.1) | pith::qsgd<8>(), momentum_correction(0.5, {.nesterov = true})),
           {{0}, {1}, {2}, {129}});
  conforms(error_feedback(pith::scaled_sign(), momentum_correction(0.5, {.masks = false, .clip = clipping::norm(1)})),
           {{0}, {1}, {129}});
}

TEST_CASE("regression against the reference: a norm is cut down to its bound, not each element to the norm") {
  CHECK(clipped(clipping::norm(2.5), {3, -4}) == std::vector<double>{1.5, -2});
  CHECK(clipped(clipping::norm(5), {3, -4}) == std::vector<double>{3, -4});
  CHECK(clipped(clipping::norm(5, 4), {3, -4}) == std::vector<double>{1.5, -2});  // sqrt(4) ranks
  CHECK(clipped(clipping::norm(1), {0, 0}) == std::vector<double>{0, 0});
  CHECK(clipped(clipping::norm(1), {}).empty());
  CHECK(clipped(clipping::norm(1), {infinity, 7}) == std::vector<double>{infinity, 7});
  CHECK(clipped(clipping::norm(1), {not_a_number, 7})[1] == 7);
  auto const x = normal_vector(40'000, 9);
  // The factor and the product are rounded once each.
  CHECK(std::abs(std::sqrt(square(clipped(clipping::norm(3), x))) - 3) <= 3 * 2 * 0x1p-24);
}

TEST_CASE("elements are cut off at a bound") {
  CHECK(clipped(clipping::value(2), {3, -4, 1, -2}) == std::vector<double>{2, -2, 1, -2});
  CHECK(clipped(clipping::value(2), {infinity, -infinity}) == std::vector<double>{2, -2});
  CHECK(std::isnan(clipped(clipping::value(2), {not_a_number})[0]));
  CHECK(clipped(clipping::value(1e-50), {1, -1}) == std::vector<double>{0x1p-149, -0x1p-149});
  CHECK(clipped(clipping::value(1e50), {3e38, infinity}) == std::vector<double>{3e38f, 0x1.fffffep127});
}

TEST_CASE("momentum remembers the clipped gradient") {
  auto t = corrects<float>(pith::identity(), momentum_correction(0.5, {.clip = clipping::norm(2.5)}), {2});
  CHECK(t.all_reduce(of({3, 4})) == of({1.5, 2}));
  CHECK(t.all_reduce(of({0, 0})) == of({0.75, 1}));
  auto u = corrects<float>(pith::identity(), momentum_correction(0.5, {.clip = clipping::value(1)}), {2});
  CHECK(u.all_reduce(of({3, 0.5})) == of({1, 0.5}));
}

TEST_CASE_TEMPLATE("the tensors of a model are clipped together", In, float, double, pith::half, pith::bfloat16) {
  auto g = of<In>({1, 2, 2, 4, 0});
  auto memory = std::vector<std::byte>(pith::clip_workspace_bytes(g.size()));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  pith::clip_to_norm<In>(pith::seq, pith::span<In>(g), 5, 4, ws);
  CHECK(widen(g) == std::vector<double>{0.5, 1, 1, 2, 0});
  pith::clip_to_norm<In>(pith::seq, pith::span<In>(g), 5, 4, ws);
  CHECK(widen(g) == std::vector<double>{0.5, 1, 1, 2, 0});
}

TEST_CASE(
    "names state the options that are not the default, and invalid arguments are refused with the allowed range") {
  CHECK(momentum_correction().name() == "momentum_correction(0.9)");
  CHECK(momentum_correction(0.5, {.nesterov = true, .masks = false, .clip = clipping::norm(1, 16)}).name() ==
        "momentum_correction(0.5,nesterov,unmasked,clip_norm(0.25))");
  CHECK(momentum_correction(0, {.clip = clipping::value(3)}).name() == "momentum_correction(0,clip_value(3))");
  CHECK_THROWS_WITH_AS(momentum_correction(1),
                       "pith::momentum_correction: momentum must be in [0, 1), also as a float, got 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(clipping::norm(0), "pith::clipping: most must be positive and finite, got 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(clipping::norm(1, 0), "pith::clipping: ranks must be at least 1, got 0", std::invalid_argument);
  CHECK_THROWS_AS(clipping::value(infinity), std::invalid_argument);
  CHECK_THROWS_AS(clipping::value(not_a_number), std::invalid_argument);
}
