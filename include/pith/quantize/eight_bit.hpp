// pith/quantize/eight_bit.hpp — a sign and one of 128 points between 0 and the bucket's largest magnitude.
#pragma once

#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <algorithm>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// Rounding of a value between two table points: to the nearest point, or to the point below.
enum class snap : std::uint8_t { nearest, floor };

namespace detail {

struct tree_points {
  float at[128];
};

/// The points are 0, 126 interval midpoints in six decades, and 1. Decade d = 1 .. 6 is [10^(d-7), 10^(d-6)] and has
/// 2^d points. Half of the points are the midpoints of equal intervals in [1, 4.5) 10^(d-7). The other half are the
/// midpoints of equal intervals in [4.5, 10] 10^(d-7).
PITH_HD constexpr tree_points make_tree() {
  constexpr double decades[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1};
  auto tree = tree_points();
  auto* to = tree.at + 1;
  for (int d = 0; d < 6; ++d) {
    auto const half = 1 << d;
    for (int i = 0; i < half; ++i) *to++ = static_cast<float>(decades[d] * (1 + 3.5 * (i + 0.5) / half));
    for (int i = 0; i < half; ++i) *to++ = static_cast<float>(decades[d] * (4.5 + 5.5 * (i + 0.5) / half));
  }
  *to = 1;
  return tree;
}

PITH_HD inline float tree_point(std::uint32_t code) {
  static constexpr auto tree = make_tree();
  return tree.at[code];
}

/// A table that maps a value v to the index of a point. `edge[p]` is the smallest 2 v that has the index p + 1. For the
/// points a (index p) and b (index p + 1), edge[p] is a + b with snap::nearest, and 2 b with snap::floor. The upper
/// bits of 2 v select a cell, which is a range of 2 v with at most one edge. `first[c]` is the index for the smallest
/// value in cell c.
struct tree_cells {
  static constexpr int shift = 18;                          ///< a shift that keeps five bits of the fraction
  static constexpr std::int32_t least = (127 - 19) << 5;    ///< doubled values below 2^-19 are mapped to point 0
  static constexpr std::int32_t count = 20 * (1 << 5) + 1;  ///< the last cell begins at 2

  PITH_HD static constexpr float begin(std::int32_t cell) {
    return static_cast<float>(32 + cell % 32) / static_cast<float>(1 << (24 - cell / 32));
  }

  float edge[128];
  std::uint32_t first[count];
};

template <snap How>
PITH_HD constexpr tree_cells make_cells() {
  auto const tree = make_tree();
  auto cells = tree_cells();
  for (std::uint32_t p = 0; p < 127; ++p) cells.edge[p] = tree.at[How == snap::floor ? p + 1 : p] + tree.at[p + 1];
  cells.edge[127] = 3;
  for (std::int32_t cell = 0; cell < tree_cells::count; ++cell) {
    auto point = cell == 0 ? 0 : cells.first[cell - 1];
    while (cells.edge[point] <= tree_cells::begin(cell)) ++point;
    cells.first[cell] = point;
  }
  return cells;
}

template <snap How>
constexpr bool has_an_edge_a_cell() {
  constexpr auto cells = make_cells<How>();
  for (std::int32_t cell = 0; cell + 1 < tree_cells::count; ++cell) {
    if (cells.edge[cells.first[cell] + 1] < tree_cells::begin(cell + 1)) return false;
  }
  return true;
}
static_assert(has_an_edge_a_cell<snap::nearest>() && has_an_edge_a_cell<snap::floor>());

/// Returns the index of the point to which How rounds the value `twice` / 2, or 0 if `twice` is NaN.
template <snap How>
PITH_HD inline std::uint32_t tree_code(float twice) {
  static constexpr auto cells = make_cells<How>();
  auto const known = twice > 0 ? twice : 0;
  auto const cell = (bits_as<std::int32_t>(known) >> tree_cells::shift) - tree_cells::least;
  auto const point = cells.first[least(most(cell, 0), tree_cells::count - 1)];
  return point + static_cast<std::uint32_t>(known >= cells.edge[point]);
}

struct eight_bit_rule : largest_terms {
  using facets = ext::facets<ext::scaled>;

  static constexpr int bits = 8;
  static constexpr bool draws = false;
  static constexpr bool is_reproducible = true;

  snap how;

  /// A scale of type double keeps 29 significant bits, and a point has 24. So their product, of 53 bits, is exact in
  /// double precision.
  template <class A>
  PITH_HD A finish(double largest, std::uint64_t, A) const {
    constexpr int digits = sizeof(A) == 8 ? 29 : 24;
    return finite_or_nan(round_up<digits, A>(largest));
  }

  template <class A>
  PITH_HD std::uint32_t code(A x, A scale, std::uint16_t) const {
    auto const twice = 2 * static_cast<float>(magnitude(x) / scale);
    auto const point = how == snap::floor ? tree_code<snap::floor>(twice) : tree_code<snap::nearest>(twice);
    return static_cast<std::uint32_t>(sign_bit(x)) << 7 | point;
  }
  template <class A>
  PITH_HD A scaled(A scale, A power) const {
    return scale * power;
  }
  /// The product is exact in double precision. A fused multiply-add therefore gives the same result as a product and a
  /// sum.
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A scale) const {
    auto const size = static_cast<A>(static_cast<double>(tree_point(symbol & 127)) * static_cast<double>(scale));
    return symbol < 128 ? size : -size;
  }
};

}  // namespace detail

/// Divides each element by the largest magnitude in its bucket. Encodes the sign of the quotient. Rounds the magnitude
/// of the quotient to the nearest of 128 points: 0, 126 points in six decades, and 1. Points are denser near 0. The
/// largest element is exact (for double, up to the rounding of its bucket's scale).
///
///   emits       n symbols of 8 bits, in which the highest bit is the sign; side information: the largest magnitude of
///               each bucket (for double, rounded up to 29 bits)
///   requires    a bucket size of 0 (the whole tensor, the default) or a multiple of 8
///   complexity  one division and two table lookups per element
///   on NaN      a bucket that contains NaN or infinity decodes to NaN
///   properties  contractive. Let c be the bucket size minus 1. Then 1 - delta is the largest c e^2 / (1 + c y^2) over
///               all borders y between two neighbouring points, where e is the rounding error at y. 1 - delta is 0.0015
///               for a bucket of 128 elements, and 0.016 for a bucket of a million elements. Use eight_bit with error
///               feedback
///   reference   Dettmers, 8-Bit Approximations for Parallelism in Deep Learning, ICLR 2016. `snap::floor` selects the
///               point below, as GRACE (ICDCS 2021) does. GRACE's table lacks the points 0 and 1. In GRACE, quotients
///               above 0.9957 decode to 0
class eight_bit : public scalar_quantizer<detail::eight_bit_rule> {
 public:
  using facets = ext::facets<ext::contractive>;

  explicit constexpr eight_bit(std::uint64_t bucket = 0, snap how = snap::nearest)
      : scalar_quantizer(detail::eight_bit_rule{{}, how}, bucket, "eight_bit") {}

  std::string name() const {
    if (rule().how == snap::floor) return detail::text("eight_bit(", bucket(), ",floor)");
    return bucket() == 0 ? "eight_bit" : detail::text("eight_bit(", bucket(), ")");
  }

  double delta(shape const& dims) const {
    auto const others = dims.n == 0 ? 0 : static_cast<double>(bucket_of(dims.n) - 1);
    double lost = 0;
    for (std::uint32_t code = 1; code < 128; ++code) {
      double const point = detail::tree_point(code), below = detail::tree_point(code - 1);
      auto const edge = rule().how == snap::floor ? point : (below + point) / 2, off = edge - below;
      lost = std::max(lost, others * off * off / (1 + others * edge * edge));
    }
    return 1 - lost;
  }
};

static_assert(stage<eight_bit, float, archetype> && promises_of<eight_bit>.contractive && reproducible<eight_bit>);
static_assert(!promises_of<eight_bit>.unbiased);

}}  // namespace pith::PITH_ABI
