// pith/vector_quantize/pca_fit.hpp — computation of the directions in which slices vary most.
#pragma once

#include <pith/vector_quantize/eigen_solver.hpp>
#include <pith/vector_quantize/slice_samples.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// Selects the mean that is subtracted from slices before the fit and added after decoding.
enum class centring : std::uint8_t {
  each_slice,  ///< one mean per slice of a tensor
  shared,      ///< one mean over all sampled slices
};

struct pca_options {
  double lambda = 0.01;          ///< the fraction of variance that may be dropped, in [0, 1)
  std::uint64_t components = 0;  ///< the largest number of components; 0 means that lambda determines the number
  centring about = centring::each_slice;
};

namespace detail {

/// The matrix X of m samples (slices) with K elements each, row-major, after subtraction of the means. The rows are
/// those of 2^-exponent X, whose largest magnitude is in [1/2, 1), so that fourth powers neither overflow nor
/// underflow.
struct centred_samples {
  std::vector<double> rows, mean;
  std::size_t m, slice;
  int exponent = 0;

  double const* row(std::size_t i) const { return rows.data() + i * slice; }
};

template <class A>
std::vector<double> mean_of(slice_samples<A> const& samples, centring about) {
  auto mean = samples.mean();
  if (about == centring::each_slice) return mean;
  auto const slice = samples.slice(), slices = samples.kept_slices();
  for (std::uint64_t s = 1; s < slices; ++s) add_multiple(1, mean.data() + s * slice, mean.data(), slice);
  mean.resize(slice);
  for (auto& v : mean) v /= static_cast<double>(slices);
  return mean;
}

/// Divides the numbers by the power of two that brings their largest magnitude to [1/2, 1). Returns its exponent.
inline int take_exponent(std::vector<double>& values) {
  double largest = 0;
  for (auto const v : values) largest = std::max(largest, std::abs(v));
  int exponent = 0;
  if (std::isfinite(largest)) std::frexp(largest, &exponent);
  for (auto& v : values) v = std::ldexp(v, -exponent);
  return exponent;
}

template <class A>
centred_samples centred(slice_samples<A> const& samples, centring about) {
  auto const slice = samples.slice(), slices = samples.kept_slices();
  auto of = centred_samples{{}, mean_of(samples, about), samples.count() * slices, slice};
  of.rows.reserve(of.m * slice);
  for (std::uint64_t i = 0; i < of.m; ++i) {
    auto const* const x = samples.at(i / slices, i % slices);
    auto const* const mean = of.mean.data() + i % slices * slice % of.mean.size();
    for (std::uint64_t j = 0; j < slice; ++j) of.rows.push_back(static_cast<double>(x[j]) - mean[j]);
  }
  of.exponent = take_exponent(of.rows);
  return of;
}

/// Computes the K x K matrix X^T X / m.
inline std::vector<double> covariance(centred_samples const& x) {
  auto c = std::vector<double>(x.slice * x.slice);
  for (std::size_t i = 0; i < x.slice; ++i) {
    auto* const row = c.data() + i * x.slice;
    for (std::size_t t = 0; t < x.m; ++t) add_multiple(x.row(t)[i], x.row(t) + i, row + i, x.slice - i);
    for (auto j = i; j < x.slice; ++j) c[j * x.slice + i] = row[j] /= static_cast<double>(x.m);
  }
  return c;
}

/// Computes the m x m matrix X X^T / m, which has the same nonzero eigenvalues as X^T X / m.
inline std::vector<double> gram(centred_samples const& x) {
  auto g = std::vector<double>(x.m * x.m);
  for (std::size_t i = 0; i < x.m; ++i) {
    for (std::size_t j = i; j < x.m; ++j)
      g[i * x.m + j] = g[j * x.m + i] = dot(x.row(i), x.row(j), x.slice) / static_cast<double>(x.m);
  }
  return g;
}

/// Returns the number of components to keep, given the variances in descending order. If `options.components` is 0, the
/// result is the smallest number of components that together have at least the fraction 1 - lambda of the variance.
/// Otherwise, the result is `options.components`. A component whose variance may be a rounding error of the largest
/// variance is never kept.
inline std::size_t kept_components(pca_options const& options, std::vector<double> const& values) {
  auto const noise = std::numeric_limits<double>::epsilon() * static_cast<double>(values.size()) * values[0];
  double total = 0, share = 0;
  for (auto const v : values) total += std::max(v, 0.0);
  std::size_t d = 0;
  for (; d < values.size() && values[d] > noise; share += values[d++]) {
    if (options.components > 0 ? d == options.components : share >= (1 - options.lambda) * total) break;
  }
  return d;
}

inline void straighten(std::vector<double>& rows, std::size_t size) {
  for (std::size_t i = 0; i * size < rows.size(); ++i) {
    auto* const own = rows.data() + i * size;
    for (std::size_t j = 0; j < i; ++j) {
      auto const* const other = rows.data() + j * size;
      add_multiple(-dot(own, other, size), other, own, size);
    }
    auto const length = std::sqrt(dot(own, own, size));
    for (std::size_t k = 0; k < size; ++k) own[k] /= length;
  }
}

/// Fixes the sign of an eigenvector, so that its first element of largest magnitude is positive.
inline void make_largest_positive(double* vector, std::size_t size) {
  std::size_t largest = 0;
  for (std::size_t k = 1; k < size; ++k) {
    if (std::abs(vector[k]) > std::abs(vector[largest])) largest = k;
  }
  if (vector[largest] >= 0) return;
  for (std::size_t k = 0; k < size; ++k) vector[k] = -vector[k];
}

/// Computes X^T v for each eigenvector v of the Gram matrix X X^T / m. Up to scaling, the results are eigenvectors of
/// the covariance matrix X^T X / m.
inline std::vector<double> through_samples(centred_samples const& x, std::vector<double> const& vectors) {
  auto of = std::vector<double>(vectors.size() / x.m * x.slice);
  for (std::size_t k = 0; k * x.m < vectors.size(); ++k) {
    for (std::size_t t = 0; t < x.m; ++t)
      add_multiple(vectors[k * x.m + t], x.row(t), of.data() + k * x.slice, x.slice);
  }
  return of;
}

/// Returns min(m, K) eigenvalues of the covariance matrix, and the eigenvectors to keep. At least one eigenvector is
/// kept. Negative eigenvalues are rounding errors and become zero.
template <eigen_solver Solver>
spectrum principal_components(centred_samples const& x, pca_options const& options, Solver const& solver) {
  auto const count = [&](std::vector<double> const& values) { return kept_components(options, values); };
  auto const is_short = x.m < x.slice;
  auto of = is_short ? solver(gram(x), x.m, count) : solver(covariance(x), x.slice, count);
  if (is_short) of.vectors = through_samples(x, of.vectors);
  for (auto& v : of.values) v = std::ldexp(std::max(v, 0.0), 2 * x.exponent);
  if (of.vectors.empty()) of.vectors.assign(x.slice, 0), of.vectors[0] = 1;
  straighten(of.vectors, x.slice);
  for (std::size_t k = 0; k < of.vectors.size(); k += x.slice) make_largest_positive(of.vectors.data() + k, x.slice);
  return of;
}

}  // namespace detail
}}  // namespace pith::PITH_ABI
