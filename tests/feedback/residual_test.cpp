// tests/feedback/residual_test.cpp — the error of the last payload, stored.
#include <pith/codec/detail/saving.hpp>
#include <pith/feedback/residual.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <type_traits>

#include "support/roundtrip.hpp"

using namespace support;

namespace {

/// One policy for one tensor.
template <class In, class F = pith::residual<>>
struct moments {
  using A = pith::accum<In>;

  F policy;
  pith::shape dims;
  decltype(pith::make_local<In>(pith::seq, policy, dims)) local = pith::make_local<In>(pith::seq, policy, dims);
  pith::workspace<> ws = pith::workspace<>(pith::span<std::byte>());
  pith::context<In, pith::seq_executor> context = {pith::seq, {}, dims, ws};

  // Inlined at -O3, g++ 12 warns of a delete that is not there.
  [[gnu::noinline]] std::vector<double> compensate(std::vector<double> const& g) {
    auto const x = narrow<In>(g);
    auto p = std::vector<A>(g.size());
    policy.compensate(context, pith::value_view<In const>{x.data(), dims.n}, pith::value_view<A>{p.data(), dims.n},
                      local);
    return widen(p);
  }
  void update(std::vector<double> const& p, std::vector<double> const& sent) {
    auto const a = narrow<A>(p), b = narrow<A>(sent);
    policy.update(context, pith::value_view<A const>{a.data(), dims.n}, pith::value_view<A const>{b.data(), dims.n},
                  local);
  }
  std::vector<double> kept() {
    auto const* const e = local.residual.data();
    return widen(std::vector<std::remove_cvref_t<decltype(*e)>>(e, e + local.residual.size()));
  }
};

}  // namespace

TEST_CASE_TEMPLATE("the error of a payload is added to the next gradient", In, float, double, pith::half,
                   pith::bfloat16) {
  auto f = moments<In>{pith::residual(), {3}};
  CHECK(f.compensate({1, -2, 4}) == std::vector<double>{1, -2, 4});
  f.update({1, -2, 4}, {0.5, -3, 4});
  CHECK(f.kept() == std::vector<double>{0.5, 1, 0});
  CHECK(f.compensate({1, 1, 1}) == std::vector<double>{1.5, 2, 1});
}

TEST_CASE("beta decays the residual and gamma scales the gradient, from the first step on") {
  auto f = moments<float, decltype(pith::residual(0.5, 0.25))>{pith::residual(0.5, 0.25), {2}};
  CHECK(f.compensate({4, -8}) == std::vector<double>{1, -2});
  f.update({1, -2}, {0, -3});
  CHECK(f.kept() == std::vector<double>{0.5, 0.5});
  CHECK(f.compensate({4, 4}) == std::vector<double>{1.5, 1.5});
}

TEST_CASE("an element with NaN or infinity in its gradient or payload keeps its residual") {
  auto f = moments<float>{pith::residual(), {6}};
  f.update({1, 2, 3, 4, 5, 6}, std::vector<double>(6));
  f.update({not_a_number, 9, infinity, -infinity, 9, 9}, {0, not_a_number, 0, -infinity, infinity, 1});
  CHECK(f.kept() == std::vector<double>{1, 2, 3, 4, 5, 8});
}

TEST_CASE("rescale multiplies the residual by the factor") {
  auto f = moments<double>{pith::residual(), {2}};
  f.update({1, -3}, {0, 0});
  auto none = pith::no_state();
  f.policy.rescale(pith::seq, 0.5, none, f.local);
  CHECK(f.kept() == std::vector<double>{0.5, -1.5});
}

TEST_CASE_TEMPLATE("residual<bfloat16> stores two bytes per element, rounded to nearest", In, float, double, pith::half,
                   pith::bfloat16) {
  auto f = moments<In, pith::residual<pith::bfloat16>>{{}, {4}};
  CHECK(pith::detail::state_bytes(f.local) == 4 * 2);
  f.update({1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1.8p-8, -0x1p-120}, {0, 0, 0, 0});
  CHECK(f.kept() == std::vector<double>{1, 1 + 0x4p-8, 1 + 0x2p-8, -0x1p-120});
  CHECK(f.compensate({1, 1, 0, 0}) == std::vector<double>{2, 2 + 0x4p-8, 1 + 0x2p-8, -0x1p-120});
  f.update({2, not_a_number, infinity, 3}, {0.5, 0, 0, -infinity});
  CHECK(f.kept() == std::vector<double>{1.5, 1 + 0x4p-8, 1 + 0x2p-8, -0x1p-120});
}

TEST_CASE("residual<bfloat16> stores the largest floats as the largest finite bfloat16") {
  auto const most = static_cast<double>(std::numeric_limits<float>::max());
  auto f = moments<float, pith::residual<pith::bfloat16>>{{}, {2}};
  f.update({most, -most}, {0, 0});
  CHECK(f.kept() == std::vector<double>{0x1.fep127, -0x1.fep127});
}

TEST_CASE("residual<bfloat16> takes the factors beta and gamma") {
  auto f = moments<float, pith::residual<pith::bfloat16>>{pith::residual<pith::bfloat16>(0.5, 0.25), {2}};
  CHECK(f.policy.name() == "residual<bfloat16>(0.5,0.25)");
  CHECK(f.compensate({4, -8}) == std::vector<double>{1, -2});
  f.update({1, -2}, {0, -3});
  CHECK(f.kept() == std::vector<double>{0.5, 0.5});
  auto none = pith::no_state();
  f.policy.rescale(pith::seq, 3, none, f.local);
  CHECK(f.kept() == std::vector<double>{1.5, 1.5});
}

TEST_CASE("an empty tensor keeps nothing") {
  auto f = moments<float>{pith::residual(), {0}};
  CHECK(f.compensate({}).empty());
  f.update({}, {});
  CHECK(f.kept().empty());
}
