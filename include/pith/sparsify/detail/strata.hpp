// pith/sparsify/detail/strata.hpp — random draws of one element from each of k equal strata, for random_k and random_blocks.
#pragma once

#include <pith/core/draws.hpp>
#include <pith/core/element.hpp>
#include <pith/core/scaling.hpp>
#include <pith/core/team.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Computes the start of stratum j + i, which is floor((j n + i n) / k), without a division, for i <= 2^11. The result
/// is first + i whole + floor((rest + i more) / k). `rest` includes one half, so that a rounding error cannot move an
/// integer quotient below the integer. The sum rest + i more is exact. The quotient is below 2^12 and differs from
/// every integer by at least 1 / (2 k). The relative error of the quotient is 2^-52, so truncation gives the exact
/// integer.
struct strata_starts {
  std::uint32_t first, whole;
  double rest, more, inverse;

  PITH_HD std::uint32_t operator()(std::uint32_t i) const {
    auto const carried = static_cast<std::int32_t>((rest + more * static_cast<std::int32_t>(i)) * inverse);
    return first + i * whole + static_cast<std::uint32_t>(carried);
  }
};

/// The largest number of strata from which a team draws at once.
inline constexpr std::uint32_t strata_room = 2048;

/// The start of each stratum, the end of the last stratum, and the index of the element that is drawn from each
/// stratum.
template <std::uint32_t Most>
struct drawn_strata {
  static_assert(Most <= strata_room);

  fast_array<std::uint16_t, 2 * Most + 16> random;
  fast_array<std::uint32_t, Most + 1> starts;
  fast_array<std::uint32_t, Most> drawn;
};

/// Divides n elements into k strata. Stratum j is the interval [j n / k, (j + 1) n / k) of indices. One index is drawn
/// from each stratum, so that the drawn indices are distinct and ascending.
struct strata {
  versioned_draws random;
  std::uint64_t n, k;

  PITH_HD strata_starts from(std::uint64_t j) const {
    return {static_cast<std::uint32_t>(j * n / k), static_cast<std::uint32_t>(n / k),
            static_cast<double>(j * n % k) + 0.5, static_cast<double>(n % k), 1 / static_cast<double>(k)};
  }

  /// Draws one element from each of the strata j .. j + count - 1. Each draw takes 32 random bits (two 16-bit lanes).
  template <team Team, std::uint32_t Most>
  PITH_HD void draw(Team const& team, drawn_strata<Most>& to, std::uint64_t j, std::uint32_t count) const {
    auto const skip = static_cast<std::uint32_t>(j % 4);
    team.random(random, j / 4, (skip + count + 3) / 4, to.random.data());
    auto const* const halves = to.random.data() + 2 * skip;
    auto* const starts = to.starts.data();
    auto* const drawn = to.drawn.data();
    auto const start = from(j);
    team.for_each(count + 1, [=](std::uint32_t i) { starts[i] = start(i); });
    team.for_each(count, [=](std::uint32_t i) {
      auto const* const low = halves + std::size_t{2} * i;
      auto const word = std::uint64_t{low[0]} | std::uint64_t{low[1]} << 16;
      drawn[i] = starts[i] + static_cast<std::uint32_t>(word * (starts[i + 1] - starts[i]) >> 32);
    });
  }

  static double widest(std::uint64_t n, std::uint64_t k) { return n == 0 ? 1 : static_cast<double>((n + k - 1) / k); }
};

/// Copies the element with index `drawn` to the kept value with index `kept`. With `unbiased`, multiplies the value by
/// `width`, which is the number of elements in the stratum.
template <class In, scaling Scaling>
struct keep_drawn {
  In const* x;
  In* values;

  /// Returns a copier whose first element is `drawn` and whose first kept value is `kept`.
  PITH_HD keep_drawn advanced(std::uint64_t drawn, std::uint64_t kept) const { return {x + drawn, values + kept}; }
  PITH_HD void operator()(std::uint64_t drawn, std::uint64_t kept, [[maybe_unused]] std::uint64_t width) const {
    if constexpr (Scaling == scaling::none) {
      values[kept] = x[drawn];
    } else {
      values[kept] = saturated_cast<In>(element_cast<accum<In>>(x[drawn]) * static_cast<accum<In>>(width));
    }
  }
};

template <class In>
struct restore_drawn {
  In const* values;
  In* x;

  PITH_HD restore_drawn advanced(std::uint64_t drawn, std::uint64_t kept) const { return {values + kept, x + drawn}; }
  PITH_HD void operator()(std::uint64_t drawn, std::uint64_t kept, std::uint64_t) const { x[drawn] = values[kept]; }
};

struct list_drawn {
  std::uint32_t* indices;

  PITH_HD void operator()(std::uint64_t drawn, std::uint64_t kept, std::uint64_t) const {
    indices[kept] = static_cast<std::uint32_t>(drawn);
  }
};

}}}  // namespace pith::PITH_ABI::detail
