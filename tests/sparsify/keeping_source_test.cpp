// tests/sparsify/keeping_source_test.cpp — a selection that keeps residuals in the same pass, against one that does not.
#include <pith/exec/seq.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/reversed.hpp"
#include "support/sampled_places.hpp"
#include "support/vectors.hpp"

using pith::accum;
using support::same_bytes;

namespace {

/// p = residual + g.
template <class In>
using added = pith::ext::residual_source<In>;

/// The residual and the payload of a rank in a step.
template <class A>
struct step {
  std::vector<A> residual, values;
  std::vector<std::byte> side;
};

using bytes = std::vector<std::byte>;

template <class A>
pith::encoded<A> emitted(step<A>& s) {
  return {{s.values.data(), s.values.size(), nullptr}, pith::span<std::byte>(s.side)};
}

template <class In, class E>
step<accum<In>> fused(E const& exec, double density, std::vector<In> const& g, std::vector<accum<In>> residual) {
  using A = accum<In>;
  auto const codec = pith::top_k<>(density);
  auto const dims = pith::shape{g.size()};
  auto s = step<A>{residual, std::vector<A>(codec.kept(dims.n)), bytes(codec.side_bytes<A>(dims))};
  auto const size = codec.scratch_bytes_from<A, E, added<In>>(exec, dims);
  auto memory = bytes(size + 128, std::byte{0x5a});
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto const cx = pith::context<A, E>{exec, {}, dims, ws};
  codec.encode_from(cx, added<In>{g.data(), s.residual.data()}, emitted(s));
  CHECK(ws.high_water() <= size);
  return s;
}

/// p = e + g; y = top_k(p); e' = p - D(y), where that is a number.
template <class In>
step<accum<In>> in_passes(double density, std::vector<In> const& g, std::vector<accum<In>> const& residual) {
  using A = accum<In>;
  auto const codec = pith::top_k<>(density);
  auto const dims = pith::shape{g.size()};
  auto s = step<A>{residual, std::vector<A>(codec.kept(dims.n)), bytes(codec.side_bytes<A>(dims))};
  auto p = std::vector<A>(g.size()), decoded = p;
  for (std::size_t i = 0; i < g.size(); ++i) p[i] = residual[i] + pith::element_cast<A>(g[i]);
  auto memory = bytes(codec.scratch_bytes<A>(pith::seq, dims) + 128);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  using context = pith::context<A, pith::seq_executor>;
  codec.encode(context{pith::seq, {}, dims, ws}, pith::value_view<A const>{p.data(), p.size(), nullptr}, emitted(s));
  auto again = pith::workspace<>(pith::span<std::byte>(memory));
  codec.decode(context{pith::seq, {}, dims, again}, pith::encoded<A const>(emitted(s)),
               pith::value_view<A>{decoded.data(), decoded.size(), nullptr});
  for (std::size_t i = 0; i < g.size(); ++i) {
    auto const lasts = std::abs(s.residual[i]) <= (sizeof(A) == 4 ? A(0x1p47) : A(0x1p495));
    s.residual[i] = pith::is_finite(p[i] - decoded[i]) ? p[i] - decoded[i] : lasts ? s.residual[i] : 0;
  }
  return s;
}

/// Step after step.
template <class In>
void agrees(double density, std::vector<std::vector<In>> const& gradients) {
  auto residual = std::vector<accum<In>>(gradients[0].size());
  for (auto const& g : gradients) {
    CAPTURE(g.size());
    CAPTURE(density);
    auto const expected = in_passes(density, g, residual);
    auto const is_right = [&](step<accum<In>> const& got) {
      CHECK(same_bytes(got.residual, expected.residual));
      CHECK(same_bytes(got.values, expected.values));
      CHECK(got.side == expected.side);
    };
    is_right(fused(pith::seq, density, g, residual));
    is_right(fused(support::reversed(), density, g, residual));
    residual = expected.residual;
  }
}

template <class In>
std::vector<In> normal(std::size_t n, std::uint64_t seed) {
  return support::narrow<In>(support::normal_vector(n, seed));
}

/// Every `stride`-th element is `odd`.
template <class In>
std::vector<In> with(std::vector<In> x, double odd, std::size_t stride) {
  for (std::size_t i = stride / 2; i < x.size(); i += stride) x[i] = pith::element_cast<In>(odd);
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("residuals kept in the pass that selects are those of two passes", In, float, double, pith::half,
                   pith::bfloat16) {
  for (std::size_t const n : {1u, 31u, 100u, 2048u, 2049u, 16384u, 16385u, 70000u}) {
    for (double const density : {0.001, 0.01, 0.3}) {
      agrees<In>(density, {normal<In>(n, 1), normal<In>(n, 2), std::vector<In>(n, In(0.0f)), normal<In>(n, 3)});
    }
  }
}

TEST_CASE_TEMPLATE("a NaN or infinite gradient element leaves its residual unchanged", In, float, double, pith::half) {
  for (std::size_t const n : {31u, 2000u, 20000u, 70000u}) {
    auto const calm = normal<In>(n, 4);
    for (double const odd : {support::not_a_number, support::infinity, -support::infinity}) {
      agrees<In>(0.01, {calm, with(calm, odd, n), calm, with(calm, odd, 7), calm});
      agrees<In>(0.3, {calm, with(calm, odd, 2), calm});
    }
  }
}

TEST_CASE("sums beyond the largest number stay") {
  for (std::size_t const n : {31u, 2000u, 20000u, 70000u}) {
    auto const large = with(normal<float>(n, 5), 3e38, n / 8);
    agrees<float>(0.01, {large, large, large});
    agrees<float>(0.2, {large, large});
  }
}

TEST_CASE("candidates that are too many or too few leave the same residuals") {
  auto const n = std::size_t{70000};
  auto equal = std::vector<float>(n, 0.5f), sparse = std::vector<float>(n);
  for (std::size_t i = 0; i < n; i += 1111) sparse[i] = 2;
  auto const misled = support::misleading(normal<float>(n, 6), 50.0f, 400);
  agrees<float>(0.01, {equal, equal, normal<float>(n, 7)});
  agrees<float>(0.01, {sparse, sparse, with(equal, support::not_a_number, 100)});
  agrees<float>(0.01, {misled, normal<float>(n, 8), with(misled, support::infinity, 5000), misled});
  auto const broken = support::misleading(normal<float>(n, 6), std::numeric_limits<float>::quiet_NaN(), 400);
  agrees<float>(0.01, {misled, with(broken, support::infinity, 5000), with(broken, 3e38, 999), misled});
}

namespace {

/// Selects, quantizes the selected values with NaN in one bucket, and updates the residual.
struct settled {
  std::vector<float> residual, before, p;
  std::vector<std::uint32_t> indices;
};

settled settle_in_bucket(std::vector<float> const& g, std::vector<float> const& residual) {
  auto const codec = pith::top_k(0.01);
  auto const dims = pith::shape{g.size()};
  auto const k = codec.kept(dims.n);
  auto s = settled{residual, residual, std::vector<float>(g.size()), std::vector<std::uint32_t>(k)};
  for (std::size_t i = 0; i < g.size(); ++i) s.p[i] = residual[i] + g[i];
  auto values = std::vector<float>(k), old = values, sent = std::vector<float>(k, 0.25f);
  std::fill(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(k / 2), std::numeric_limits<float>::quiet_NaN());
  auto const from = added<float>{g.data(), s.residual.data()};
  auto memory = bytes(pith::ext::select_scratch_bytes<added<float>>(dims.n, k) + 128);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto const to = pith::ext::selected_entries<float>{s.indices.data(), values.data(), old.data()};
  pith::ext::select_largest(pith::seq, from, dims.n, k, to, ws);
  pith::seq.for_each_index(k, pith::ext::write_back_selected<added<float>, float>{from, to, sent.data()});
  return s;
}

}  // namespace

TEST_CASE("a bucket that decodes to NaN leaves its residuals as they were") {
  for (std::size_t const n : {1000u, 10000u, 70000u}) {
    for (auto const& g : {normal<float>(n, 9), std::vector<float>(n, 3)}) {
      auto const s = settle_in_bucket(g, normal<float>(n, 10));
      for (std::size_t j = 0; j < s.indices.size(); ++j) {
        auto const i = s.indices[j];
        CHECK(s.residual[i] == (j < s.indices.size() / 2 ? s.before[i] : s.p[i] - 0.25f));
      }
    }
  }
}

TEST_CASE("residuals of a bucket that decodes to NaN change by at most a rounding if candidates were too few") {
  auto const n = std::size_t{70000};
  auto const g = support::misleading(normal<float>(n, 11), 60.0f, 400);
  auto const s = settle_in_bucket(g, normal<float>(n, 12));
  for (std::size_t j = 0; j < s.indices.size() / 2; ++j) {
    auto const i = s.indices[j];
    CHECK(std::abs(s.residual[i] - s.before[i]) <= 0x1p-23f * (std::abs(s.p[i]) + std::abs(g[i])));
  }
}
