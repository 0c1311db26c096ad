// pith/sparsify/redsync.hpp — sparsification to k .. 2 k entries by a binary search for the threshold.
#pragma once

#include <pith/sparsify/threshold_estimator.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// A search rule that bisects [0, max |x_i|] until the number of entries that reach the bound is between the target and
/// the capacity.
struct redsync_rule {
  using first = terms<how_many, largest_magnitude>;
  using later = terms<how_many>;

  PITH_HD unsigned passes() const { return 11; }

  PITH_HD double next(search& at, survivors const& of) const {
    if (at.pass > 0 && of.count >= at.aim && of.count <= at.room) return at.bound;
    if (at.pass > 0) (of.count < at.aim ? at.high : at.low) = at.bound;
    return at.low / 2 + at.high / 2;
  }
};

}  // namespace detail

/// Keeps between k and 2 k - 1 entries of largest magnitude, where k = max(1, floor(density n)). A binary search in [0,
/// max |x_i|] finds the threshold in at most 10 passes. If there are ties or a few huge elements, the search may find
/// no threshold for so many entries. In this case, redsync may keep fewer than k entries, but keeps at least one entry
/// of the largest magnitude. The following properties differ from those of `threshold_estimator`:
///
///   complexity  one pass for the largest magnitude, about 4 and at most 10 passes to count, and two to write
///   reference   Fang, Fu, Yang and Hsieh, RedSync: Reducing Synchronization Bandwidth for Distributed Deep Learning
///               Training System, JPDC 2019 ("threshold binary search"). The published code searches only in [mean,
///               max], raises the threshold if more than k / 2 entries pass, and stops after three passes. It keeps
///               0.1 k to 2.1 k entries
class redsync : public threshold_estimator<detail::redsync_rule> {
 public:
  using facets = ext::facets<ext::rate>;

  explicit redsync(double density) : threshold_estimator("redsync", density, {}) {}

  std::string name() const { return detail::text("redsync(", detail::shortest(density()), ")"); }
  redsync at(double density) const { return redsync(density); }
};

static_assert(stage<redsync, float, archetype> && promises_of<redsync>.contractive);
static_assert(detail::rate_adjustable<redsync> && !promises_of<redsync>.unbiased);

}}  // namespace pith::PITH_ABI
