// pith/core/summation.hpp — the one order in which anything is summed, so that sums have the same bits everywhere.
#pragma once

#include <pith/config.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// A tile is 8 rows of 2,048 lanes: rows in order, lanes pairwise from the low bit, tiles pairwise from the low bit.
inline constexpr std::uint64_t tile_lanes = 2048;
inline constexpr std::uint64_t tile_rows = 8;
inline constexpr std::uint64_t tile = tile_lanes * tile_rows;

/// Merges what it is given pairwise: the tree that a binary counter draws. A left sibling without a right one goes up
/// as it is.
template <class T, class Merge>
class pairwise {
 public:
  PITH_HD constexpr explicit pairwise(Merge merge) : merge_(merge) {}

  PITH_HD constexpr void add(T value) {
    unsigned level = 0;
    for (; (count_ >> level) & 1u; ++level) value = merge_(partial_[level], value);
    partial_[level] = value;
    ++count_;
  }

  /// The merge of all that was added, at least one value.
  PITH_HD constexpr T result() const {
    unsigned level = 0;
    while (!((count_ >> level) & 1u)) ++level;
    T total = partial_[level];
    for (++level; (count_ >> level) != 0; ++level) {
      if ((count_ >> level) & 1u) total = merge_(partial_[level], total);
    }
    return total;
  }

 private:
  Merge merge_;
  T partial_[48] = {};
  std::uint64_t count_ = 0;
};

/// The merge of f(i) over one tile's elements [from, from + count), 1 <= count <= tile.
template <class T, class F, class Merge>
PITH_HD constexpr T reduce_tile(std::uint64_t from, std::uint64_t count, F const& f, Merge merge) {
  auto total = pairwise<T, Merge>(merge);
  auto const lanes = count < tile_lanes ? count : tile_lanes;
  for (std::uint64_t lane = 0; lane < lanes; ++lane) {
    T value = f(from + lane);
    for (auto i = lane + tile_lanes; i < count; i += tile_lanes) value = merge(value, f(from + i));
    total.add(value);
  }
  return total.result();
}

/// The merge of f(i) for i in [first, first + n) in the tree's order; `none` if n is 0.
template <class T, class F, class Merge>
PITH_HD constexpr T reduce_tree(std::uint64_t first, std::uint64_t n, F const& f, Merge merge, T none) {
  if (n == 0) return none;
  auto total = pairwise<T, Merge>(merge);
  for (std::uint64_t from = 0; from < n; from += tile) {
    total.add(reduce_tile<T>(first + from, n - from < tile ? n - from : tile, f, merge));
  }
  return total.result();
}

struct plus {
  PITH_HD constexpr double operator()(double a, double b) const { return a + b; }
};

/// The larger one; NaN if either is.
struct larger {
  PITH_HD constexpr double operator()(double a, double b) const { return a > b || a != a ? a : b; }
};

}  // namespace pith::inline v0::detail
