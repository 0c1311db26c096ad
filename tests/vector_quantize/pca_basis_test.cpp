// tests/vector_quantize/pca_basis_test.cpp — the directions that are found in samples, and how a basis is kept.
#include <pith/vector_quantize/pca_basis.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "support/slices.hpp"

using namespace support;
using pith::centring;
using pith::pca_basis;
using pith::sampled;
using pith::slice_samples;

namespace {

slice_samples<double> samples_of(std::vector<std::vector<double>> const& tensors, std::size_t slice) {
  auto samples = slice_samples<double>(tensors[0].size(), slice);
  for (auto const& x : tensors) samples.add(pith::span<double const>(x));
  return samples;
}

/// The mean over the samples of what the basis loses of a slice.
double mean_error(pca_basis const& basis, slice_samples<double> const& samples) {
  double sum = 0;
  for (std::uint64_t t = 0; t < samples.count(); ++t) {
    auto const kept = samples.kept_slices() * samples.slice();
    auto x = std::vector<double>(samples.at(t, 0), samples.at(t, 0) + kept);
    x.resize(basis.mean().size() == basis.slice() ? kept : basis.mean().size());
    auto lost = minus(x, projected(basis, x));
    lost.resize(kept);
    sum += square(lost);
  }
  return sum / static_cast<double>(samples.count() * samples.kept_slices());
}

double dropped_sum(pca_basis const& basis) {
  auto const& values = basis.eigenvalues();
  return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(basis.components()), values.end(), 0.0);
}

double off_orthonormal(pca_basis const& basis) {
  auto const d = basis.components(), size = basis.slice();
  double worst = 0;
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t k = 0; k < d; ++k) {
      auto const* const u = basis.vectors().data();
      worst = std::max(worst, std::abs(pith::detail::dot(u + i * size, u + k * size, size) - (i == k ? 1 : 0)));
    }
  }
  return worst;
}

std::string why(std::vector<std::byte> const& bytes) {
  try {
    pca_basis::load(bytes);
  } catch (std::invalid_argument const& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a worked example: points on a line through their mean") {
  // Slices (1, 2) + t (3, 4) / 5 for t = -1, 0, 1: variance 2/3 along (0.6, 0.8), none across.
  auto const samples = samples_of({{0.4, 1.2}, {1, 2}, {1.6, 2.8}}, 2);
  auto const basis = pca_basis::fit(samples);
  CHECK(basis.components() == 1);
  CHECK(basis.vectors()[0] == doctest::Approx(0.6).epsilon(1e-14));
  CHECK(basis.vectors()[1] == doctest::Approx(0.8).epsilon(1e-14));
  CHECK(basis.mean()[0] == doctest::Approx(1).epsilon(1e-14));
  CHECK(basis.mean()[1] == doctest::Approx(2).epsilon(1e-14));
  CHECK(basis.eigenvalues()[0] == doctest::Approx(2.0 / 3).epsilon(1e-14));
  CHECK(std::abs(basis.eigenvalues()[1]) <= 1e-15);
}

TEST_CASE("the error of a basis on its samples is the sum of the dropped eigenvalues") {
  // Sums of some 10^3 squares in double, and a spectrum that is right to 10 K roundings of the largest eigenvalue.
  for (auto const which : {sampled::all_slices, sampled::first_slice}) {
    for (auto const about : {centring::each_slice, centring::shared}) {
      for (std::size_t const count : {7u, 40u}) {  // Gram and covariance
        auto const samples = correlated_samples(70, 24, 6, count, 0.1, which);
        for (std::uint64_t const d : {1u, 3u, 5u}) {
          auto const basis = pca_basis::fit(samples, {.components = d, .about = about});
          REQUIRE(basis.components() == d);
          CHECK(std::abs(mean_error(basis, samples) - dropped_sum(basis)) <= 1e-12 * basis.eigenvalues()[0]);
          CHECK(off_orthonormal(basis) <= 1e-14);
        }
      }
    }
  }
}

TEST_CASE("few samples take the Gram matrix, many the covariance, and both find the same") {
  // Each sample twice has the same mean and covariance; 15 x 2 slices of 40 take the one, 30 x 2 the other.
  auto once = slice_samples<double>(80, 40), twice = slice_samples<double>(80, 40);
  for (unsigned t = 0; t < 15; ++t) {
    auto const x = correlated(80, 40, 4, t);
    once.add(pith::span<double const>(x));
    for (int i = 0; i < 2; ++i) twice.add(pith::span<double const>(x));
  }
  auto const a = pca_basis::fit(once, {.components = 6}), b = pca_basis::fit(twice, {.components = 6});
  CHECK(a.eigenvalues().size() == 30);
  CHECK(b.eigenvalues().size() == 40);
  for (std::size_t i = 0; i < 30; ++i)
    CHECK(std::abs(a.eigenvalues()[i] - b.eigenvalues()[i]) <= 1e-13 * a.eigenvalues()[0]);
  for (std::size_t i = 0; i < a.vectors().size(); ++i) CHECK(std::abs(a.vectors()[i] - b.vectors()[i]) <= 1e-10);
}

TEST_CASE("the fewest directions are kept that leave no more than lambda") {
  auto const samples = correlated_samples(96, 24, 6, 60, 0.05);
  for (double const lambda : {0.0, 0.001, 0.01, 0.1, 0.5, 0.99}) {
    CAPTURE(lambda);
    auto const basis = pca_basis::fit(samples, {.lambda = lambda});
    auto const& values = basis.eigenvalues();
    auto const total = std::accumulate(values.begin(), values.end(), 0.0);
    CHECK(dropped_sum(basis) <= lambda * total * (1 + 1e-12));
    if (basis.components() > 1) CHECK(dropped_sum(basis) + values[basis.components() - 1] > lambda * total);
    CHECK(basis.dropped() == doctest::Approx(dropped_sum(basis) / total).epsilon(1e-9));
  }
  CHECK(pca_basis::fit(samples, {.lambda = 0.5}).components() < pca_basis::fit(samples).components());
}

TEST_CASE("samples bound the number of directions, whatever lambda and components say") {
  // With one slice per tensor, L centred samples span L - 1 directions: K / d >= K / (L - 1).
  for (std::size_t const count : {2u, 5u, 9u}) {
    auto const samples = correlated_samples(16, 16, 16, count, 1);
    CHECK(pca_basis::fit(samples, {.lambda = 0}).components() == count - 1);
    CHECK(pca_basis::fit(samples, {.components = 100}).components() == count - 1);
  }
  CHECK(pca_basis::fit(correlated_samples(16, 16, 3, 40, 0), {.lambda = 0}).components() == 3);
}

TEST_CASE("samples that do not vary leave the mean, and a direction") {
  auto const basis = pca_basis::fit(samples_of({{1, 2, 3, 4}, {1, 2, 3, 4}}, 2));
  CHECK(basis.components() == 1);
  CHECK(basis.vectors() == std::vector<double>{1, 0});
  CHECK(basis.mean() == std::vector<double>{1, 2, 3, 4});
  CHECK(basis.dropped() == 0);
}

TEST_CASE("the sign is that of the component of largest magnitude, and equal samples give equal bytes") {
  auto const samples = correlated_samples(64, 16, 5, 30);
  auto const basis = pca_basis::fit(samples, {.components = 5});
  for (std::size_t k = 0; k < 5; ++k) {
    auto const first = basis.vectors().begin() + static_cast<std::ptrdiff_t>(16 * k);
    auto const largest =
        std::max_element(first, first + 16, [](double a, double b) { return std::abs(a) < std::abs(b); });
    CHECK(*largest > 0);
  }
  auto negated = std::vector<double>{-1, 0.5, 1};
  pith::detail::make_largest_positive(negated.data(), 3);
  CHECK(negated == std::vector<double>{1, -0.5, -1});
  CHECK(pca_basis::fit(samples, {.components = 5}).save() == basis.save());
}

TEST_CASE("the mean is each slice's own, or shared") {
  auto const samples = samples_of({{1, 2, 3, 4, 5}, {3, 2, 1, 0, 9}}, 2);
  CHECK(pca_basis::fit(samples).mean() == std::vector<double>{2, 2, 2, 2, 7, 0});  // filled up with zeros
  CHECK(pca_basis::fit(samples, {.about = centring::shared}).mean() == std::vector<double>{11 / 3.0, 4 / 3.0});
  auto first = slice_samples<double>(5, 2, {}, sampled::first_slice);
  for (auto const& x : {std::vector<double>{1, 2, 3, 4, 5}, {3, 2, 1, 0, 9}}) first.add(pith::span<double const>(x));
  CHECK(pca_basis::fit(first).mean() == std::vector<double>{2, 2, 2, 2, 7, 0});
  CHECK(pca_basis::fit(first, {.about = centring::shared}).mean() == std::vector<double>{2, 2});
  CHECK(pca_basis::fit(samples).fits(5));
  CHECK(pca_basis::fit(samples).fits(0));
  CHECK(!pca_basis::fit(samples).fits(4));
  CHECK(pca_basis::fit(samples, {.about = centring::shared}).fits(4));
}

TEST_CASE("another solver may take the place of ours") {
  auto const coordinates = [](std::vector<double> matrix, std::size_t n, pith::vector_count const& count) {
    auto of = pith::spectrum();  // right for diagonal matrices that fall
    for (std::size_t k = 0; k < n; ++k) of.values.push_back(matrix[k * n + k]);
    of.vectors.resize(count(of.values) * n);
    for (std::size_t k = 0; k * n < of.vectors.size(); ++k) of.vectors[k * n + k] = 1;
    return of;
  };
  static_assert(pith::eigen_solver<decltype(coordinates)>);
  auto const samples = samples_of({{3, 1}, {-3, 1}, {3, -1}, {-3, -1}}, 2);
  auto const theirs = pca_basis::fit(samples, {.components = 1}, coordinates);
  CHECK(theirs.vectors() == std::vector<double>{1, 0});
  CHECK(theirs.eigenvalues() == std::vector<double>{9, 1});
  CHECK(theirs.save() == pca_basis::fit(samples, {.components = 1}).save());
}

TEST_CASE("load() restores a saved basis") {
  auto samples = slice_samples<float>(3 * 4 * 9, 20, pith::slice_order::oihw(4, 3, 9));
  for (unsigned t = 0; t < 9; ++t) samples.add(pith::span<float const>(narrow<float>(correlated(108, 20, 3, t))));
  auto const basis = pca_basis::fit(samples);
  auto const bytes = basis.save();
  auto const back = pca_basis::load(bytes);
  CHECK(back.save() == bytes);
  CHECK(back.digest() == basis.digest());
  CHECK(back.order() == basis.order());
  CHECK(back.vectors() == basis.vectors());
}

TEST_CASE("bytes that are no basis are refused, and a changed bit is found") {
  auto const basis = pca_basis::fit(correlated_samples(24, 8, 2, 5), {.components = 2});
  auto const bytes = basis.save();
  CHECK(why({}).starts_with("pith::pca_basis::load: the basis must have a multiple of 8 bytes, at least 72, got 0"));
  CHECK(why(std::vector<std::byte>(1000)) ==
        "pith::pca_basis::load: the basis must begin with \"pithpca0\", got other bytes");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK(why(std::vector<std::byte>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))) != "");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = bytes;
      changed[i] ^= static_cast<std::byte>(1 << bit);
      CHECK(why(changed) != "");
    }
  }
  for (std::size_t word = 1; word < 8; ++word) {
    for (std::uint64_t const value :
         {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 61, std::uint64_t{1} << 32}) {
      auto forged = bytes;
      if (std::memcmp(forged.data() + 8 * word, &value, 8) == 0) continue;
      std::memcpy(forged.data() + 8 * word, &value, 8);
      CHECK(why(forged) != "");
    }
  }
}

TEST_CASE("samples and options that cannot be are refused") {
  auto samples = slice_samples<double>(4, 2);
  samples.add(pith::span<double const>(std::vector<double>{1, 2, 3, 4}));
  CHECK_THROWS_WITH_AS(pca_basis::fit(samples),
                       "pith::pca_basis::fit: samples must be at least 2 tensors of at least 1 element, got 1 of 4",
                       std::invalid_argument);
  samples.add(pith::span<double const>(std::vector<double>{1, not_a_number, 3, 4}));
  CHECK_THROWS_WITH_AS(pca_basis::fit(samples), "pith::pca_basis::fit: samples must have finite squares",
                       std::invalid_argument);
  for (double const lambda : {-0.1, 1.0, not_a_number})
    CHECK_THROWS_AS(pca_basis::fit(samples, {.lambda = lambda}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(samples.add(pith::span<double const>()),
                       "pith::slice_samples::add: x must have 4 elements, got 0", std::invalid_argument);
  CHECK_THROWS_AS(slice_samples<double>(4, 0), std::invalid_argument);
  CHECK_THROWS_AS((slice_samples<double>(4, 2, pith::slice_order::oihw(3, 1, 1))), std::invalid_argument);
}
