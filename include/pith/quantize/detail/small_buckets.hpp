// pith/quantize/detail/small_buckets.hpp — encoding, in one pass, of buckets that fit into a block.
#pragma once

#include <pith/core/detail/summation.hpp>
#include <pith/quantize/detail/code_block.hpp>
#include <pith/quantize/detail/largest_terms.hpp>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

template <class Rule, class Source, class A, std::uint32_t Span>
struct quantize_buckets {
  static constexpr unsigned resident_blocks = sizeof(A) > 4 ? 3 : Source::stores_residual || !Rule::draws ? 5 : 6;
  using memory = quantizer_memory<Rule, A, Span>;

  quantized<Rule, A> to;
  Source from;
  draws random;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const run = to.over.at(block);
    auto const* const p = load(team, fast, run);
    measure_buckets(team, fast, p, run);
    if constexpr (Team::specializes) {
      if (has_rows<64>(run, Span)) return code(team, fast, p, run, constant<Span>(), constant<64>());
      // Rules that draw have larger buckets, and each length of rows is another copy of `code`.
      if constexpr (!Rule::draws) {
        constexpr auto row = short_row<Rule>;
        if (has_rows<row>(run, Span)) return code(team, fast, p, run, constant<Span>(), constant<row>());
      }
    }
    code(team, fast, p, run, run.count, run.width);
  }

 private:
  /// True if one thread measures a bucket by its largest magnitude.
  template <class Team>
  static constexpr bool takes_largest = std::derived_from<Team, serial_team>&& std::derived_from<Rule, largest_terms>;

  template <class Team>
  PITH_HD A const* load(Team const& team, memory& fast, bucket_run const& run) const {
    if constexpr (Team::specializes) {
      if (run.count == Span) return from.load(team, run.first, constant<Span>(), fast.room.data());
    }
    return from.load(team, run.first, run.count, fast.room.data());
  }

  template <class Team, class Count, class Row>
  PITH_HD void code(Team const& team, memory& fast, A const* p, bucket_run const& run, Count count, Row row) const {
    code_block<true>(to, from, random, team, fast, run.first, p, count, run.width, row);
  }

  template <class Team>
  PITH_HD void measure_buckets(Team const& team, memory& fast, A const* p, bucket_run const& run) const {
    auto const full = run.count / run.width, buckets = (run.count + run.width - 1) / run.width;
    measure_full(team, fast, p, full, run.width);
    if (full < buckets) measure_rest(plain_team(team), fast, p, full, run.count, run.width);
    auto* const scales = fast.scales.data();
    auto* const refined = fast.refined.data();
    auto* const out = to.scales + run.bucket;
    auto const rule = to.rule;
    team.for_each(buckets, [=](std::uint32_t j) {
      out[j] = scales[j];
      refined[j] = refine(rule, scales[j]);
    });
  }

  template <class Team>
  PITH_HD void measure_full(Team const& team, memory& fast, A const* p, std::uint32_t buckets,
                            std::uint32_t width) const {
    if constexpr (Team::specializes || Team::by_octets) {
      if (width == 128) return measure(team, fast, p, buckets, constant<128>());
    }
    if constexpr (Team::specializes && takes_largest<Team>) {
      constexpr auto row = short_row<Rule>;
      if (width == row) return measure(team, fast, p, buckets, constant<row>());
    }
    measure(team, fast, p, buckets, width);
  }
  template <class Team, class Width>
  PITH_HD void measure(Team const& team, memory& fast, A const* p, std::uint32_t buckets, Width width) const {
    auto* const lanes = fast.lanes.data();
    auto* const scales = fast.scales.data();
    auto const rule = to.rule;
    auto const stride = row_stride(width);
    if constexpr (takes_largest<Team>) {
      for (std::uint32_t j = 0; j < buckets; ++j) lanes[j * stride] = Rule::largest(p + j * width, width);
    } else {
      merge_terms(team, lanes, p, buckets, width);
    }
    team.for_each(buckets, [=](std::uint32_t j) { scales[j] = rule.finish(lanes[j * stride], width, A{}); });
    if constexpr (has_candidates<Rule>) {
      if (rule.chooses) choose_scales(rule, team, fast, p, 0, buckets, width);
    }
  }
  /// Sets lanes[row_stride(width) j] to the merged terms of bucket j.
  template <class Team, class Width>
  PITH_HD void merge_terms(Team const& team, statistic_of<Rule, A>* lanes, A const* p, std::uint32_t buckets,
                           Width width) const {
    auto const rule = to.rule;
    auto const merge = [=, &team]<class Terms>(Terms const& terms) {
      merge_rows(
          team, lanes, buckets, width, [=](std::uint32_t i) { return terms.measure(p[i]); }, merged<Terms>{terms});
    };
    if constexpr (Team::by_octets && declares<Rule, ext::chosen_terms>) {
      rule.with_terms(merge);
    } else {
      merge(rule);
    }
  }

  template <class Team>
  PITH_NOINLINE PITH_HD void measure_rest(Team const& team, memory& fast, A const* all, std::uint32_t bucket,
                                          std::uint32_t count, std::uint32_t width) const {
    auto const* const p = all + bucket * width;
    auto* const lanes = fast.lanes.data();
    auto* const scales = fast.scales.data();
    auto const rule = to.rule;
    auto const rest = count - bucket * width;
    merge_rows(
        team, lanes, 1u, rest, [=](std::uint32_t i) { return rule.measure(p[i]); }, merged<Rule>{rule});
    team.for_each(1u, [=](std::uint32_t) { scales[bucket] = rule.finish(lanes[0], rest, A{}); });
    if constexpr (has_candidates<Rule>) {
      if (rule.chooses) choose_scales(rule, team, fast, p, bucket, 1u, rest);
    }
  }
};

}}}  // namespace pith::PITH_ABI::detail
