// pith/transform/hadamard.hpp — random signs and the Walsh-Hadamard matrix: every value spreads over its tile.
#pragma once

#include <pith/transform/tile_transform.hpp>

#include <string>

namespace pith::inline v0 {

namespace detail {

struct hadamard_rule {
  static constexpr bool is_reproducible = true;

  std::uint32_t tile;
  float unit;  ///< 1 / sqrt(tile), a power of two: products with it are exact

  template <class Team, class Count, class A>
  PITH_HD void forward(Team const& team, draws const& random, std::uint64_t first, Count count, A* p) const {
    flip_signs(team, random, first, count, p);
    rotate(team, count, p);
  }
  template <class Team, class Count, class A>
  PITH_HD void inverse(Team const& team, draws const& random, std::uint64_t first, Count count, A* p) const {
    rotate(team, count, p);
    flip_signs(team, random, first, count, p);
  }

 private:
  /// A random block has the signs of 128 elements: word w those of 32 w .. 32 w + 31.
  template <class Team, class Count, class A>
  PITH_HD void flip_signs(Team const& team, draws const& random, std::uint64_t first, Count count, A* p) const {
    team.for_each_in(count, constant<32>(), [=](std::uint32_t j) {
      auto const at = first / 32 + j;
      auto const signs = random(at / 4).word[at % 4];
      return [=](std::uint32_t i) {
        auto const sign = static_cast<bits_of<A>>(signs >> (first + i) % 32 & 1u) << (8 * sizeof(A) - 1);
        p[i] = bits_as<A>(bits_as<bits_of<A>>(p[i]) ^ sign);
      };
    });
  }

  /// A tile is a square. Butterflies of neighbours first: in the transposed square they are whole rows apart.
  template <class Team, class Count, class A>
  PITH_HD void rotate(Team const& team, Count count, A* p) const {
    auto const times = static_cast<A>(unit);
    team.for_each(count, [=](std::uint32_t i) { p[i] *= times; });
    if (tile == 256) {
      rotate_squares(team, count, constant<16>(), p);
    } else {
      rotate_squares(team, count, constant<8>(), p);
    }
  }
  template <class Team, class Side, class A>
  PITH_HD static void rotate_squares(Team const& team, std::uint32_t count, Side side, A* p) {
    for (int half = 0; half < 2; ++half) {
      transpose(team, count, side, p);
      for (std::uint32_t rows = 1; rows < side; rows *= 2) add_and_subtract(team, count, rows * side, p);
    }
  }
  template <class Team, std::uint32_t Side, class A>
  PITH_HD static void transpose(Team const& team, std::uint32_t count, constant<Side>, A* p) {
    team.for_each(count / Side, [=](std::uint32_t row) {
      auto const y = row % Side;
      auto* const square = p + (row - y) * Side;
      for (std::uint32_t x = 0; x < y; ++x) {
        auto const above = square[x * Side + y];
        square[x * Side + y] = square[y * Side + x];
        square[y * Side + x] = above;
      }
    });
  }
  template <class Team, class A>
  PITH_HD static void add_and_subtract(Team const& team, std::uint32_t count, std::uint32_t distance, A* p) {
    team.for_each_in(count / 2, distance, [=](std::uint32_t pair) {
      auto* const low = p + pair * distance;
      auto* const high = low + distance;
      return [=](std::uint32_t i) {
        auto const a = low[i], b = high[i];
        low[i] = a + b;
        high[i] = a - b;
      };
    });
  }
};

}  // namespace detail

/// Multiplies each tile by a random diagonal of signs, the same on all ranks in a step, and by the Walsh-Hadamard matrix
/// / sqrt(tile). Large values spread over their tile, so that a quantizer behind it, with a scale a bucket, loses less.
///
///   emits    n values of In, zeros added up to whole tiles; no side record
///   needs    a tile of 64 or 256 elements, powers of four (std::invalid_argument)
///   cost     log2(tile) additions an element
///   errors   NaN or infinity spreads over its tile
///   is       an isometry, reproducible
///   source   Suresh, Yu, Kumar and McMahan, Distributed Mean Estimation with Limited Communication, ICML 2017
class hadamard : public tile_transform<detail::hadamard_rule> {
 public:
  explicit hadamard(std::uint32_t tile = 256) : tile_transform({tile, tile == 64 ? 0.125f : 0.0625f}) {
    detail::require(tile == 64 || tile == 256, "hadamard: the tile must be 64 or 256 elements, got ", tile);
  }

  std::string name() const { return tile() == 256 ? "hadamard" : detail::text("hadamard(", tile(), ")"); }
};

static_assert(stage<hadamard, float, detail::archetype> && unbiased<hadamard> && isometric<hadamard>);
static_assert(reproducible<hadamard> && !summable<hadamard>);

}  // namespace pith::inline v0
