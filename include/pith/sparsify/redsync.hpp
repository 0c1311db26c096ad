// pith/sparsify/redsync.hpp — sparsification to k .. 2 k entries by a binary search for the threshold.
#pragma once

#include <pith/sparsify/threshold_estimator.hpp>

#include <string>

namespace pith::inline v0 {

namespace detail {

/// Bisects [0, max |x_i|] until the count is at least the target and fits.
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

/// Keeps from k to 2 k - 1 entries of largest magnitude, k = max(1, floor(density n)), by a binary search in [0, max
/// |x_i|] of at most 10 passes. If ties or a few huge elements leave no such threshold, it keeps fewer, always
/// including a largest one. As threshold_estimator, except:
///
///   complexity  one pass for the largest and about 4 to count, at most 10; two to write
///   reference   Fang, Fu, Yang and Hsieh, RedSync: Reducing Synchronization Bandwidth for Distributed Deep Learning
///               Training System, JPDC 2019: threshold binary search. Its code searches only in [mean, max], raises the
///               threshold already at k / 2, and stops after three passes: 0.1 to 2.1 k
class redsync : public threshold_estimator<detail::redsync_rule> {
 public:
  explicit redsync(double density) : threshold_estimator("redsync", density, {}) {}

  std::string name() const { return detail::text("redsync(", detail::shortest(density()), ")"); }
  redsync at(double density) const { return redsync(density); }
};

static_assert(stage<redsync, float, archetype> && projection<redsync> && contractive<redsync>);
static_assert(variable_rate<redsync> && rate_adjustable<redsync> && !isometric<redsync> && !unbiased<redsync>);

}  // namespace pith::inline v0
