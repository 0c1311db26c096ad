// pith/vector_quantize/eigen_solver.hpp — eigenvalues and eigenvectors of a symmetric matrix, computed on the host in double.
#pragma once

#include <pith/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// `values` contains all eigenvalues in descending order. `vectors` contains the eigenvectors of the first few
/// eigenvalues, one after another.
struct spectrum {
  std::vector<double> values, vectors;
};

/// A function that returns the number of eigenvectors to compute, given the eigenvalues.
using vector_count = std::function<std::size_t(std::vector<double> const&)>;

/// A solver for the eigenvalues and eigenvectors of a symmetric n x n matrix. The default is `householder_qr`. A solver
/// of another library may replace the default.
template <class S>
concept eigen_solver = requires(S const& s, std::vector<double> matrix, std::size_t n, vector_count const& count) {
  { s(std::move(matrix), n, count) } -> std::same_as<spectrum>;
};

namespace detail {

/// Computes a scalar product as eight parallel sums in a fixed order, so that the compiler can vectorize the loop.
inline double dot(double const* a, double const* b, std::size_t n) {
  double lanes[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t k = 0; k < 8; ++k) lanes[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) lanes[i % 8] += a[i] * b[i];
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}
inline void add_multiple(double factor, double const* x, double* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

/// The decomposition A = V T V^T of a symmetric matrix A, where T is tridiagonal. V is a product of reflections
/// 1 - scale v v^T, one for each column except the last two.
class tridiagonal {
 public:
  tridiagonal(std::vector<double> a, std::size_t n) : diagonal(n), beside(n), n_(n), a_(std::move(a)), scale_(n) {
    auto product = std::vector<double>(n);
    for (std::size_t k = 0; k < n; ++k) {
      diagonal[k] = row(k)[k];
      if (k + 1 < n) reflect(k, product.data());
    }
  }

  std::vector<double> diagonal, beside;  ///< beside[k] is the element between diagonal[k] and diagonal[k + 1]

  /// Replaces x by V x.
  void apply(double* x) const {
    for (auto k = n_; k-- > 0;) {
      auto const* const v = a_.data() + k * n_ + k + 1;
      auto const size = n_ - k - 1;
      if (scale_[k] != 0) add_multiple(-scale_[k] * dot(v, x + k + 1, size), v, x + k + 1, size);
    }
  }

 private:
  double* row(std::size_t k) { return a_.data() + k * n_; }

  /// Reflects the elements of row k after the diagonal, so that only the first of these elements is nonzero. Stores the
  /// vector v of the reflection in place of these elements. First divides them by a power of two, so that their squares
  /// do not underflow. The direction of v is that of the reflection.
  void reflect(std::size_t k, double* product) {
    auto* const v = row(k) + k + 1;
    auto const size = n_ - k - 1;
    beside[k] = v[0];
    if (std::all_of(v + 1, v + size, [](double x) { return x == 0; })) return;
    auto const largest =
        std::abs(*std::max_element(v, v + size, [](double a, double b) { return std::abs(a) < std::abs(b); }));
    auto const exponent = std::ilogb(largest);
    for (std::size_t i = 0; i < size; ++i) v[i] = std::ldexp(v[i], -exponent);
    auto const length = std::sqrt(dot(v, v, size)), end = v[0] > 0 ? -length : length;
    beside[k] = std::ldexp(end, exponent);
    v[0] -= end;
    scale_[k] = 2 / dot(v, v, size);
    std::fill_n(product, size, 0.0);
    for (std::size_t j = 0; j < size; ++j) add_multiple(scale_[k] * v[j], row(k + 1 + j) + k + 1, product, size);
    add_multiple(-scale_[k] / 2 * dot(product, v, size), v, product, size);
    for (std::size_t j = 0; j < size; ++j) {
      add_multiple(-v[j], product, row(k + 1 + j) + k + 1, size);
      add_multiple(-product[j], v, row(k + 1 + j) + k + 1, size);
    }
  }

  std::size_t n_;
  std::vector<double> a_, scale_;
};

/// Computes the decomposition T = W^T D W of a tridiagonal matrix T by implicit QR steps, where D is diagonal. `values`
/// becomes the diagonal of D. `rows` becomes W.
class tridiagonal_qr {
 public:
  tridiagonal_qr(std::vector<double> diagonal, std::vector<double> beside)
      : values(std::move(diagonal)),
        rows(values.size() * values.size()),
        n_(values.size()),
        beside_(std::move(beside)) {
    for (std::size_t k = 0; k < n_; ++k) rows[k * n_ + k] = 1;
    auto norm = 0.0;
    for (std::size_t k = 0; k < n_; ++k) norm = std::max(norm, std::abs(values[k]) + std::abs(beside_[k]));
    least_ = std::numeric_limits<double>::epsilon() * norm;
    solve();
  }

  std::vector<double> values, rows;

 private:
  void solve() {
    auto left = 64 * n_;
    for (auto last = n_; last-- > 1;) {
      for (auto first = start(last); first < last; first = start(last)) {
        if (left-- == 0)
          throw std::runtime_error(
              sentence("householder_qr: the eigenvalues of a ", n_, " x ", n_, " matrix did not converge"));
        step(first, last);
      }
    }
  }

  std::size_t start(std::size_t last) const {
    while (last > 0 && std::abs(beside_[last - 1]) > least_) --last;
    return last;
  }

  /// Returns the eigenvalue of the trailing 2 x 2 block that is nearer to the block's last diagonal entry.
  double shift(std::size_t last) const {
    auto const half = (values[last - 1] - values[last]) / 2, couple = beside_[last - 1];
    auto const length = std::hypot(half, couple);
    return values[last] - couple / (half + (half < 0 ? -length : length)) * couple;
  }

  /// One implicit QR step: rotates the first column of T - shift, then chases the resulting bulge out of the band.
  void step(std::size_t first, std::size_t last) {
    auto x = values[first] - shift(last), out = beside_[first];
    for (auto k = first; k < last; ++k) {
      auto const length = std::hypot(x, out);
      auto const c = length == 0 ? 1 : x / length, s = length == 0 ? 0 : out / length;
      if (k > first) beside_[k - 1] = length;
      auto const couple = beside_[k], difference = values[k + 1] - values[k];
      auto const moved = s * (2 * c * couple + s * difference);
      values[k] += moved;
      values[k + 1] -= moved;
      beside_[k] = x = c * s * difference + (c - s) * (c + s) * couple;
      out = s * beside_[k + 1];
      if (k + 1 < last) beside_[k + 1] *= c;
      rotate(rows.data() + k * n_, c, s);
    }
  }

  void rotate(double* row, double c, double s) {
    auto* const next = row + n_;
    for (std::size_t i = 0; i < n_; ++i) {
      auto const a = row[i], b = next[i];
      row[i] = c * a + s * b;
      next[i] = c * b - s * a;
    }
  }

  std::size_t n_;
  std::vector<double> beside_;
  double least_ = 0;
};

}  // namespace detail

/// A solver that computes Householder's tridiagonal form, then applies implicit QR steps with Wilkinson's shift.
///
///   requires    a symmetric matrix of finite numbers (std::runtime_error if the iteration does not converge)
///   complexity  about 7 n^3 flop and memory for two matrices. n = 512 takes half a second; n = 1024 takes a few
///               seconds
///   errors      results are exact for a matrix close to the input. The norm of the difference between this matrix and
///               the input is at most a few times n 2^-53 times the input's norm. The same program gives bitwise equal
///               results. Results may differ between compilers, because some compilers fuse multiplications and
///               additions
///   reference   Golub and Van Loan, Matrix Computations, sections 8.3.1 and 8.3.5
struct householder_qr {
  spectrum operator()(std::vector<double> matrix, std::size_t n, vector_count const& count) const {
    auto const form = detail::tridiagonal(std::move(matrix), n);
    auto const solved = detail::tridiagonal_qr(form.diagonal, form.beside);
    auto order = std::vector<std::size_t>(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return solved.values[i]; });
    auto of = spectrum();
    for (auto const i : order) of.values.push_back(solved.values[i]);
    auto const kept = std::min(count(of.values), n);
    of.vectors.resize(kept * n);
    for (std::size_t k = 0; k < kept; ++k) {
      std::copy_n(solved.rows.data() + order[k] * n, n, of.vectors.data() + k * n);
      form.apply(of.vectors.data() + k * n);
    }
    return of;
  }
};

static_assert(eigen_solver<householder_qr>);

}}  // namespace pith::PITH_ABI
