// pith/transform/hadamard.hpp — a transform of tiles by random signs and a Walsh-Hadamard matrix.
#pragma once

#include <pith/transform/tile_transform.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

struct hadamard_rule {
  static constexpr bool is_reproducible = true;

  std::uint32_t tile;
  float unit;  ///< 1 / sqrt(tile), a power of two, so that products are exact

  template <class Team, class Count, class A>
  PITH_HD void forward(Team const& team, draws const& random, std::uint64_t first, Count count, A* p) const {
    flip_signs(team, random, first, count, p);
    rotate(team, count, p);
  }
  template <class Team, class Random, class Count, class A>
  PITH_HD void inverse(Team const& team, Random const& random, std::uint64_t first, Count count, A* p) const {
    rotate(team, count, p);
    flip_signs(team, random, first, count, p);
  }

 private:
  /// A random block contains the signs of 128 elements, in four words of 32 bits. Word w contains the signs of elements
  /// 32 w .. 32 w + 31. On devices, each thread processes an octet and computes its own random block.
  template <class Team, class Random, class Count, class A>
  PITH_HD void flip_signs(Team const& team, Random const& random, std::uint64_t first, Count count, A* p) const {
    constexpr std::uint32_t row = 32, drawn = 128;
    if constexpr (Team::by_octets) {
      team.for_each(count / eight, [=](std::uint32_t g) {
        auto const at = first + g * eight;
        flip<eight>(p + g * eight, random(at / drawn).word[at / row % 4] >> at % row);
      });
    } else {
      auto const skip = static_cast<std::uint32_t>(first % drawn);
      team.for_each((skip + count + drawn - 1) / drawn, [=](std::uint32_t b) {
        auto const signs = random(first / drawn + b);
        for (std::uint32_t w = 0; w < 4; ++w) {
          auto const at = b * drawn + w * row;  // relative to the first block
          if (at >= skip && at - skip < count) flip<row>(p + (at - skip), signs.word[w]);
        }
      });
    }
  }
  template <std::uint32_t Count, class A>
  PITH_HD static void flip(A* p, std::uint32_t signs) {
    for (std::uint32_t i = 0; i < Count; ++i) {
      auto const sign = signs & 1u << i ? bits_of<A>{1} << (8 * sizeof(A) - 1) : 0;
      p[i] = bits_as<A>(bits_as<bits_of<A>>(p[i]) ^ sign);
    }
  }

  template <class Team, class Count, class A>
  PITH_HD void rotate(Team const& team, Count count, A* p) const {
    auto const times = static_cast<A>(unit);
    team.for_each(count / eight, [=](std::uint32_t g) { rotate_eight(p + g * eight, times); });
    add_and_subtract(team, count, constant<8>(), p);
    add_and_subtract(team, count, constant<16>(), p);
    add_and_subtract(team, count, constant<32>(), p);
    if (tile == 64) return;
    add_and_subtract(team, count, constant<64>(), p);
    add_and_subtract(team, count, constant<128>(), p);
  }
#if defined(__GNUC__) && !defined(__CUDACC__)
  /// Makes the same additions as the loops below. g++ 12 compiles those loops to these shuffles only in some functions.
  template <class A>
  static void rotate_eight(A* p, A times) {
    using values [[gnu::vector_size(eight * sizeof(A))]] = A;
    values a, b;
    __builtin_memcpy(&a, p, sizeof a);
    a *= times;
    b = __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6);
    a = __builtin_shufflevector(a + b, b - a, 0, 9, 2, 11, 4, 13, 6, 15);
    b = __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5);
    a = __builtin_shufflevector(a + b, b - a, 0, 1, 10, 11, 4, 5, 14, 15);
    b = __builtin_shufflevector(a, a, 4, 5, 6, 7, 0, 1, 2, 3);
    a = __builtin_shufflevector(a + b, b - a, 0, 1, 2, 3, 12, 13, 14, 15);
    __builtin_memcpy(p, &a, sizeof a);
  }
#else
  template <class A>
  PITH_HD static void rotate_eight(A* p, A times) {
    A a[eight], b[eight];
    for (std::uint32_t i = 0; i < eight; ++i) a[i] = times * p[i];
    for (std::uint32_t apart = 1; apart < eight; apart *= 2) {
      for (std::uint32_t i = 0; i < eight; ++i) b[i] = i & apart ? a[i ^ apart] - a[i] : a[i] + a[i ^ apart];
      for (std::uint32_t i = 0; i < eight; ++i) a[i] = b[i];
    }
    for (std::uint32_t i = 0; i < eight; ++i) p[i] = a[i];
  }
#endif
  template <class Team, std::uint32_t Apart, class A>
  PITH_HD static void add_and_subtract(Team const& team, std::uint32_t count, constant<Apart> apart, A* p) {
    team.for_each_in(count / 2, apart, [=](std::uint32_t pair) {
      auto* const low = p + pair * Apart;
      auto* const high = low + Apart;
      return [=](std::uint32_t i) {
        auto const a = low[i], b = high[i];
        low[i] = a + b;
        high[i] = a - b;
      };
    });
  }

  static constexpr auto eight = static_cast<std::uint32_t>(octet);
};

}  // namespace detail

/// Multiplies each element by a random sign, which is equal on all ranks in a step. Then multiplies each tile by the
/// Walsh-Hadamard matrix divided by sqrt(tile). This transform spreads large values over their tile. If the next stage
/// is a quantizer with one scale per bucket, the transform reduces the quantizer's error.
///
///   emits       n values of In, padded with zeros to whole tiles; no side information
///   requires    a tile size of 64 or 256 elements (std::invalid_argument); both are powers of four
///   complexity  log2(tile) additions per element
///   errors      a transformed value may be sqrt(tile) times the largest magnitude of its tile. If this product
///               overflows, the tile may decode to NaN. For half, values beyond 65504 become 65504, with their sign. Without
///               a quantizer that reads the transformed tile in float, a tile of halves with a norm below 2^-21 becomes 0
///   on NaN      NaN or infinity spreads over the whole tile
///   properties  a rotation, reproducible; no isometry if the tile size does not divide n
///   reference   Suresh, Yu, Kumar and McMahan, Distributed Mean Estimation with Limited Communication, ICML 2017
class hadamard : public tile_transform<detail::hadamard_rule> {
 public:
  explicit hadamard(std::uint32_t tile = 256) : tile_transform({tile, tile == 64 ? 0.125f : 0.0625f}) {
    detail::require(tile == 64 || tile == 256, "hadamard: tile must be 64 or 256, got ", tile);
  }

  std::string name() const { return tile() == 256 ? "hadamard" : detail::text("hadamard(", tile(), ")"); }
};

static_assert(stage<hadamard, float, archetype> && promises_of<hadamard>.unbiased);
static_assert(reproducible<hadamard>);

}}  // namespace pith::PITH_ABI
