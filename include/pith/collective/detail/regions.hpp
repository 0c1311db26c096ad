// pith/collective/detail/regions.hpp — regions of a tensor, one per rank, whose bounds follow the selected entries.
#pragma once

#include <pith/collective/detail/pairs.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The division of n elements into `count` regions. If words[0] = count, region r > 0 begins at element words[r].
/// Otherwise, as in the first step, the regions have equal sizes. A region whose number is `count` or more is empty.
/// The words of a damaged state may have any values. Even then, begin(r) <= n, and region r is empty if begin(r + 1) <
/// begin(r).
struct regions {
  std::uint32_t const* words;
  std::uint32_t n, count;

  PITH_HD std::uint32_t begin(std::uint64_t r) const {
    if (r == 0) return 0;
    if (r >= count) return n;
    if (words[0] != count) return static_cast<std::uint32_t>(n * r / count);
    return words[r] < n ? words[r] : n;
  }
  PITH_HD bool holds(std::uint64_t r, std::uint32_t i) const { return begin(r) <= i && i < begin(r + 1); }
};

/// Sets starts[r] to the number of indices that lie before region r. The k indices are in ascending order.
struct find_starts {
  regions over;
  std::uint32_t const* indices;
  std::uint32_t k;
  std::uint32_t* starts;

  PITH_HD void operator()(std::uint64_t r) const { starts[r] = count_below(indices, k, over.begin(r)); }
};

/// Writes this rank's proposal for begin(r) to the piece for the owner of region r. The proposals of a rank divide the
/// rank's k indices evenly among the regions.
template <class In>
struct propose_begin {
  regions over;
  std::uint32_t const* indices;
  std::uint32_t k;
  pair_pieces<In> to;
  PITH_HD void operator()(std::uint64_t r) const {
    *to.words(r) = r < over.count ? indices[r * k / over.count] : over.n;
  }
};

/// Computes the mean of all ranks' proposals for the beginning of this rank's region.
template <class In>
struct mean_begin {
  pair_pieces<In const> in;
  std::uint32_t ranks;
  std::uint32_t* mean;
  PITH_HD void operator()(std::uint64_t) const {
    std::uint64_t sum = 0;
    for (std::uint32_t r = 0; r < ranks; ++r) sum += *in.words(r);
    *mean = static_cast<std::uint32_t>(sum / ranks);
  }
};

/// Sets the bounds of the next step to the mean proposals, which the owners sent. Bounds must ascend. The means of
/// ascending proposals ascend, and the function clamps values from damaged messages.
template <class In>
struct adopt_begins {
  regions over;
  pair_pieces<In const> in;
  std::uint32_t* words;
  PITH_HD void operator()(std::uint64_t) const {
    std::uint32_t before = 0;
    for (std::uint32_t r = 1; r < over.count; ++r) {
      auto const said = *in.words(r);
      before = said < before ? before : said > over.n ? over.n : said;
      words[r] = before;
    }
    words[0] = over.count;
  }
};

}}}  // namespace pith::PITH_ABI::detail
