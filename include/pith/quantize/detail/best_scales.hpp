// pith/quantize/detail/best_scales.hpp — the choice of each bucket's scale among candidates, by the squared error.
#pragma once

#include <pith/core/detail/summation.hpp>
#include <pith/quantize/quantizer_rule.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// True if a rule has candidates for the scale of a bucket.
template <class R>
concept has_candidates = requires(R const& rule) {
  R::candidates;
  rule.chooses;
};

/// The best candidate of each bucket in a block, as far as the candidates have been tried.
template <class Rule, class A, std::uint32_t Buckets>
struct candidate_memory {};
template <has_candidates Rule, class A, std::uint32_t Buckets>
struct candidate_memory<Rule, A, Buckets> {
  fast_array<double, Buckets> min_error;
  fast_array<scale_of<Rule, A>, Buckets> best;
};

/// The squared error of an element. The error is rounded to a float, so its square is exact, and a fused multiply-add
/// cannot change a sum of squares.
template <class Rule, class A, class Refined>
PITH_HD double squared_error(Rule const& rule, A x, Refined scale) {
  auto const error = static_cast<double>(static_cast<float>(x - rule.value(rule.code(x, scale, 0), scale)));
  return error * error;
}

/// Replaces the scales of the buckets [first, first + buckets) by the candidates with the smallest squared errors. If
/// errors are equal, the first candidate is chosen. The buckets begin at p, and have `width` elements. Buckets have
/// 2^k elements, unless there is only one. The function overwrites `refined` and `lanes`.
template <class Rule, class Team, class Memory, class A, class Width>
PITH_HD void choose_scales(Rule const& rule, Team const& team, Memory& fast, A const* p, std::uint32_t first,
                           std::uint32_t buckets, Width width) {
  auto* const scales = fast.scales.data() + first;
  auto* const refined = fast.refined.data() + first;
  auto* const best = fast.best.data() + first;
  auto* const error = fast.min_error.data() + first;
  auto* const lanes = fast.lanes.data();
  auto const stride = row_stride(width);
  auto const shift = rows_shift(width, 1);
  for (unsigned c = 0; c < Rule::candidates; ++c) {
    team.for_each(buckets, [=](std::uint32_t j) { refined[j] = refine(rule, rule.candidate(scales[j], c)); });
    merge_rows(
        team, lanes, buckets, width, [=](std::uint32_t i) { return squared_error(rule, p[i], refined[i >> shift]); },
        plus());
    team.for_each(buckets, [=](std::uint32_t j) {
      if (c > 0 && !(lanes[j * stride] < error[j])) return;
      error[j] = lanes[j * stride];
      best[j] = rule.candidate(scales[j], c);
    });
  }
  team.for_each(buckets, [=](std::uint32_t j) { scales[j] = best[j]; });
}

}}}  // namespace pith::PITH_ABI::detail
