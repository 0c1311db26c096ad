// pith/sparsify/gaussian_k.hpp — sparsification by a threshold from the tails of a fitted normal distribution.
#pragma once

#include <pith/sparsify/detail/gamma_tail.hpp>
#include <pith/sparsify/threshold_estimator.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// The correction of the threshold of `gaussian_k` if too many or too few entries pass it.
enum class correction : std::uint8_t {
  coarse,  ///< changes the threshold by half, up to 3 times, until between 2/3 k and 4/3 k entries pass
  fine,    ///< changes the threshold by 2 %, up to 20 times, until between 3/4 k and 5/4 k entries pass
};

namespace detail {

struct gaussian_rule {
  using first = terms<how_many, value_sum, square_sum, largest_magnitude>;
  using later = terms<how_many>;

  double quantile;
  correction how;

  PITH_HD unsigned passes() const { return how == correction::fine ? 22 : 5; }

  PITH_HD double next(search& at, survivors const& of) const {
    if (at.pass == 0) return estimate(at.n, of);
    if (at.pass + 1 == passes()) return at.bound;
    auto const is_fine = how == correction::fine;
    auto const off = is_fine ? 0.25 : 1.0 / 3, step = is_fine ? 0.02 : 0.5;
    if (of.count > at.room) return smaller(at.bound * 1.5, at.bound / 2 + at.safe / 2);
    if (of.count / at.aim > 1 + off) return at.bound * (1 + step);
    return of.count / at.aim < 1 - off ? at.bound * (1 - step) : at.bound;
  }

 private:
  PITH_HD static double smaller(double a, double b) { return a < b ? a : b; }

  /// Returns |mean| + z deviation, where deviation^2 = square - mean^2 and `square` is the mean of the squares.
  PITH_HD double estimate(double n, survivors const& of) const {
    auto const mean = magnitude(of.signed_sum / n);
    auto const square = of.squares / n;
    auto const share = 1 - mean * mean / square;
    return mean + apart(quantile, sqrt(share > 0 ? share : 0) * sqrt(square));
  }
};

}  // namespace detail

/// Keeps about k entries of largest magnitude, where k = max(1, floor(density n)). The threshold is |mean| plus z
/// standard deviations, where a standard normal number exceeds z in magnitude with probability `density`. The threshold
/// is corrected if too many or too few entries pass it. The following properties differ from those of
/// `threshold_estimator`:
///
///   complexity  one pass for the moments, one pass per correction, one to count the result, and two to write
///   errors      for double, squares of magnitudes above 1e154 overflow, and those below 1e-162 underflow. The first
///               threshold is then |mean|, and more or fewer entries may be kept
///   reference   Shi, Chu, Cheung and See, Understanding Top-k Sparsification in Distributed Deep Learning, 2019. The
///               20 fine corrections are those of Ok-Topk. If too many entries pass the final threshold, gaussian_k
///               uses the smallest tried threshold whose entries fit into the payload. If no tried threshold is large
///               enough, only entries of the largest magnitude are kept
class gaussian_k : public threshold_estimator<detail::gaussian_rule> {
 public:
  using facets = ext::facets<ext::rate>;

  explicit gaussian_k(double density, correction how = correction::coarse)
      : threshold_estimator("gaussian_k", density, {detail::normal_quantile(density), how}) {}

  std::string name() const {
    auto const how = rule().how == correction::fine ? ",fine)" : ")";
    return detail::text("gaussian_k(", detail::shortest(density()), how);
  }
  gaussian_k at(double density) const { return gaussian_k(density, rule().how); }
};

static_assert(stage<gaussian_k, float, archetype> && promises_of<gaussian_k>.contractive);
static_assert(detail::rate_adjustable<gaussian_k>);

}}  // namespace pith::PITH_ABI
