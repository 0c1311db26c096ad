// pith/lowrank/detail/orthonormalize.hpp — orthonormalization of a thin matrix, whose columns may be dependent or zero.
#pragma once

#include <pith/core/detail/summation.hpp>
#include <pith/core/executor.hpp>
#include <pith/lowrank/detail/exact_product.hpp>
#include <pith/lowrank/detail/normalize.hpp>
#include <pith/lowrank/detail/strided_sum.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The largest fraction of a column's squared norm that counts as rounding error. The fraction includes a margin for
/// the rounding errors of the sums.
template <class A>
inline constexpr double rounding_part = sizeof(A) == 8 ? 1e-26 : 1e-10;

/// Returns 1 / sqrt(after), where `after` is the squared norm of a column after the subtraction of its projection on
/// earlier columns. `before` is the squared norm before the subtraction. Returns 0 if `after` is only rounding error.
/// Returns NaN if `after` is NaN or infinite.
template <class A>
PITH_HD inline double inverse_length(double before, double after) {
  if (after <= rounding_part<A> * finite_or_nan(before)) return 0;  // also true if both are zero
  return 1 / sqrt(finite_or_nan(after));
}

/// The number of rows of P that a block processes.
inline constexpr std::uint32_t thin_span = 128;
PITH_HD constexpr std::uint64_t thin_spans(std::uint64_t rows) { return (rows + thin_span - 1) / thin_span; }

/// Computes products of columns of P, with one partial sum per `thin_span` rows. For a <= c, partial[part rank^2 +
/// a rank + c] is the partial sum of p_a . p_c, where p_a is column a of P.
template <class A, memory_space Space>
struct column_products {
  static constexpr auto at_once = loads_at_once<Space>;
  struct memory {};

  A const* p;
  double* partial;
  std::uint64_t rows, rank;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t part) const {
    auto const self = *this;
    auto const first = part * thin_span, last = rows - first < thin_span ? rows : first + thin_span;
    team.for_each(static_cast<std::uint32_t>(rank * rank), [=](std::uint32_t i) {
      auto const a = i / self.rank, c = i % self.rank;
      if (a > c) return;
      double sum = 0;
      auto row = first;
      if constexpr (at_once > 1) {
        for (; row + at_once <= last; row += at_once) sum = self.add_rows(sum, self.p + row * self.rank, a, c);
      }
      for (; row < last; ++row) {
        auto const* const at = self.p + row * self.rank;
        sum = add_product<A>(sum, static_cast<double>(at[a]), static_cast<double>(at[c]));
      }
      self.partial[part * self.rank * self.rank + i] = sum;
    });
  }

 private:
  /// Returns sum + the products of `at_once` rows. All loads run in parallel.
  PITH_HD double add_rows(double sum, A const* row, std::uint64_t a, std::uint64_t c) const {
    A left[at_once], right[at_once];
    for (std::uint32_t y = 0; y < at_once; ++y) {
      left[y] = row[y * rank + a];
      right[y] = row[y * rank + c];
    }
    for (std::uint32_t y = 0; y < at_once; ++y) {
      sum = add_product<A>(sum, static_cast<double>(left[y]), static_cast<double>(right[y]));
    }
    return sum;
  }
};

/// Adds the partial sums of G = P^T P. Computes the upper triangular matrix R with G = R^T R, and T = R^-1. The columns
/// of P T are orthonormal. If a column of P depends on earlier columns, the corresponding column of T is zero. Each
/// element of T is stored as a sum of two numbers, upper bits plus lower bits. Stores the upper bits of all elements,
/// then the lower bits of all elements.
template <class A, memory_space Space>
struct triangle_of_products {
  /// A device computes matrices of up to this rank in block-local memory, because a step of this computation is shorter
  /// than an access to global memory.
  static constexpr std::uint32_t max_local = std::same_as<Space, device_space> ? 16 : 0;
  using memory = fast_array<double, max_local*(3 * max_local + 1) + 1>;

  double* partial;
  double* inverse;  ///< rank values: 1 / r_cc
  double* t;
  std::uint64_t parts, rank;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto const self = *this;
    auto const size = static_cast<std::uint32_t>(rank), square = size * size;
    auto const own = size <= max_local ? in_memory(fast.data(), size) : self;
    team.for_each(square, [=](std::uint32_t i) {
      if (i / size <= i % size) own.partial[i] = strided_sum<Space>(self.partial + i, square, self.parts);
    });
    own.factorize(team, size);
    team.for_each(square, [=](std::uint32_t i) {
      if (i / size > i % size) return;
      auto const value = own.t[i], upper = upper_bits(value);
      self.t[square + i] = value - upper;
      self.t[i] = upper;
    });
  }

 private:
  /// Returns a body whose pointers are in block-local memory.
  PITH_HD triangle_of_products in_memory(double* at, std::uint32_t size) const {
    return {at, at + size * size, at + size * (size + 1), parts, rank};
  }

  template <class Team>
  PITH_HD void factorize(Team const& team, std::uint32_t size) const {
    auto const self = *this;
    auto* const lengths = t;
    team.for_each(size, [=](std::uint32_t c) { lengths[c] = self.partial[c * size + c]; });
    for (std::uint32_t a = 0; a < size; ++a) eliminate(team, a, size, lengths);
    team.for_each(size, [=](std::uint32_t c) { self.invert(c, size); });
  }

  /// Computes row a of R. Subtracts the products of this row's elements from the later rows of G.
  template <class Team>
  PITH_HD void eliminate(Team const& team, std::uint32_t a, std::uint32_t size, double const* lengths) const {
    auto* const r = partial;
    auto* const over = inverse;
    team.for_each(1u, [=](std::uint32_t) { over[a] = inverse_length<A>(lengths[a], r[a * size + a]); });
    team.for_each(size - a - 1, [=](std::uint32_t i) { r[a * size + a + 1 + i] *= over[a]; });
    auto const left = size - a - 1;
    team.for_each(left * left, [=](std::uint32_t i) {
      auto const b = a + 1 + i / left, c = a + 1 + i % left;
      if (b <= c) r[b * size + c] = add_product<double>(r[b * size + c], -r[a * size + b], r[a * size + c]);
    });
  }

  /// Computes column c of R^-1.
  PITH_HD void invert(std::uint32_t c, std::uint32_t size) const {
    t[c * size + c] = inverse[c];
    for (std::uint32_t a = c; a-- > 0;) {
      double sum = 0;
      for (auto b = a + 1; b <= c; ++b) sum = add_product<double>(sum, partial[a * size + b], t[b * size + c]);
      t[a * size + c] = -inverse[a] * sum;
    }
  }
};

/// Replaces P by P T, where T is the matrix from `triangle_of_products`.
template <class A>
struct times_triangle {
  struct memory {};

  A* p;
  double const* t;
  std::uint64_t rows, rank;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto const self = *this;
    auto const first = block * thin_span;
    auto const count = static_cast<std::uint32_t>(rows - first < thin_span ? rows - first : thin_span);
    team.for_each(count, [=](std::uint32_t i) { self.multiply(self.p + (first + i) * self.rank); });
  }

 private:
  /// Replaces a row of P by the row's product with T. Columns are computed from last to first, because each column
  /// needs the old values of earlier columns.
  PITH_HD void multiply(A* row) const {
    auto const* const low = t + rank * rank;
    for (auto c = rank; c-- > 0;) {
      double sum = 0;
      for (std::uint64_t a = 0; a <= c; ++a) {
        auto const value = static_cast<double>(row[a]);
        sum = sum + value * t[a * rank + c] + value * low[a * rank + c];
      }
      row[c] = static_cast<A>(sum);
    }
  }
};

/// Makes the columns of P orthonormal by the Gram-Schmidt method, which subtracts each projection twice. This method is
/// for doubles. Cholesky-QR would round P^T P and so lose half of the significant bits.
struct gram_schmidt {
  static constexpr std::uint32_t lanes = 256;
  struct memory {
    fast_array<double, lanes> sum;
    fast_array<double, 1> before;
  };

  double* p;
  std::uint64_t rows, rank;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto* const sum = fast.sum.data();
    auto* const before = fast.before.data();
    for (std::uint64_t c = 0; c < rank; ++c) {
      normalize(team, sum, c);
      multiply(team, sum, c, c);
      team.for_each(1u, [=](std::uint32_t) { *before = *sum; });
      for (int pass = 0; pass < 2; ++pass) {
        for (std::uint64_t a = 0; a < c; ++a) subtract(team, sum, a, c);
      }
      multiply(team, sum, c, c);
      scale(team, before, sum, c);
    }
  }

 private:
  template <class Team, class F>
  PITH_HD void for_each_row(Team const& team, F const& f) const {
    auto const end = rows;
    team.for_each(constant<lanes>(), [=](std::uint32_t i) {
      for (std::uint64_t row = i; row < end; row += lanes) f(row);
    });
  }
  /// Multiplies column c by a power of two, so that the squares of its elements neither overflow nor underflow.
  template <class Team>
  PITH_HD void normalize(Team const& team, double* largest, std::uint64_t c) const {
    auto const column = thin_column<double>{p + c, rows, rank};
    largest_in_column(team, largest, column);
    for_each_row(team, [=](std::uint64_t row) { column[row] *= normalizing_power(*largest); });
  }
  /// Sets *sum to the dot product of columns a and c of p.
  template <class Team>
  PITH_HD void multiply(Team const& team, double* sum, std::uint64_t a, std::uint64_t c) const {
    auto const self = *this;
    team.for_each(constant<lanes>(), [=](std::uint32_t i) {
      sum[i] = 0;
      for (std::uint64_t row = i; row < self.rows; row += lanes) {
        auto const* const at = self.p + row * self.rank;
        sum[i] = add_product<double>(sum[i], at[a], at[c]);
      }
    });
    merge_lanes(team, sum, constant<lanes>(), plus());
  }
  /// Subtracts (p_a . p_c) p_a from p_c.
  template <class Team>
  PITH_HD void subtract(Team const& team, double* sum, std::uint64_t a, std::uint64_t c) const {
    auto const self = *this;
    multiply(team, sum, a, c);
    for_each_row(team, [=](std::uint64_t row) {
      auto* const at = self.p + row * self.rank;
      at[c] = add_product<double>(at[c], -*sum, at[a]);
    });
  }
  template <class Team>
  PITH_HD void scale(Team const& team, double const* before, double const* after, std::uint64_t c) const {
    auto const self = *this;
    for_each_row(team,
                 [=](std::uint64_t row) { self.p[row * self.rank + c] *= inverse_length<double>(*before, *after); });
  }
};

constexpr std::size_t orthonormalize_scratch_bytes(std::uint64_t rows, std::uint64_t rank) {
  return scratch_for<double>(thin_spans(rows) * rank * rank) + scratch_for<double>(rank) +
         scratch_for<double>(2 * rank * rank);
}

/// Replaces P by P T, where T is the matrix from `triangle_of_products`. The columns of the result are orthonormal up
/// to rounding errors, which the product with T magnifies.
template <executor E>
void orthonormalize_once(E const& exec, float* p, std::uint64_t rows, std::uint64_t rank, workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto const parts = thin_spans(rows);
  auto* const partial = ws.template take<double>(parts * rank * rank).data;
  auto* const inverse = ws.template take<double>(rank).data;
  auto* const t = ws.template take<double>(2 * rank * rank).data;
  exec.for_each_block(parts, column_products<float, space_of<E>>{p, partial, rows, rank});
  exec.for_each_block(1, triangle_of_products<float, space_of<E>>{partial, inverse, t, parts, rank});
  exec.for_each_block(parts, times_triangle<float>{p, t, rows, rank});
}

/// Makes the columns of P (rows x rank, row-major) orthonormal. A column that depends on earlier columns becomes zero.
/// A NaN may spread to all elements. The host reads no data, and the result is bitwise equal on all executors.
///
/// For floats, the method is Cholesky-QR in two passes. Products of two floats are exact in double precision, so P^T P
/// shows which columns are dependent. The second pass removes the rounding errors that the first pass magnified.
template <executor E>
void orthonormalize(E const& exec, float* p, std::uint64_t rows, std::uint64_t rank, workspace_on<E>& ws) {
  for (int pass = 0; pass < 2; ++pass) orthonormalize_once(exec, p, rows, rank, ws);
}
template <executor E>
void orthonormalize(E const& exec, double* p, std::uint64_t rows, std::uint64_t rank, workspace_on<E>&) {
  exec.for_each_block(1, gram_schmidt{p, rows, rank});
}

}}}  // namespace pith::PITH_ABI::detail
