// pith/sparsify/detail/threshold_search.hpp — a search for a threshold that about k of n values reach.
#pragma once

#include <pith/core/detail/last_block.hpp>
#include <pith/sparsify/detail/survivors.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The state of a search, in the executor's memory. Initially all members are zero. Bounds are magnitudes.
struct search {
  double n, aim, room;   ///< the number of values, the target count and the capacity
  double bound;          ///< the bound to try; 0 means all nonzero values
  double low, high;      ///< for use by rules: an interval around the threshold, initially 0 to the largest magnitude
  double largest, safe;  ///< the largest magnitude; the least tried bound that at most `room` values reach
  double sent;           ///< the number of values that reach the final bound
  std::uint32_t pass, is_over;
  std::uint32_t arrived;  ///< the number of finished blocks of the current kernel
};

/// The range [bits(), end()) of the bit patterns of those finite nonzero magnitudes that reach the bound.
template <class A>
struct found_bound {
  search const* at;

  PITH_HD bool is_over() const { return at->is_over != 0; }
  PITH_HD bits_of<A> bits() const {
    auto const least = magnitude_bits(static_cast<A>(at->bound));
    return least == 0 ? 1 : least;
  }
  PITH_HD bits_of<A> end() const { return infinite_bits<A>(); }
  PITH_HD bits_of<A> operator()() const { return bits(); }
};

/// The step at the end of each pass of a search. The step sets the bound of the next pass, which the rule computes, or
/// ends the search. A rule has these members, whose functions are PITH_HD:
///
///     first, later                        the terms (survivors.hpp) of the first pass, which includes all nonzero
///                                         values, and the terms of each later pass
///     passes()                            the largest number of passes
///     next(search&, survivors const&)     returns the next bound, given the values that reach the current bound;
///                                         returns the current bound to end the search
///
/// The search guarantees two properties. First, if at most `room` values are nonzero, all nonzero values reach the
/// final bound. So a decoded tensor can be encoded again without loss.
///
/// Second, the final bound is at most the largest magnitude. More than `room` values can reach the final bound only if
/// this bound equals the largest magnitude. So at least one of the largest values is always sent. The squared error is
/// therefore at most |x|^2 - max |x_i|^2 <= (1 - 1 / n) |x|^2.
template <class Rule, class A>
struct search_step {
  Rule rule;
  double n, aim, room;
  bool is_last;

  PITH_HD void operator()(search& at, survivors const& of) const {
    if (at.is_over != 0) return;
    if (at.pass == 0) begin(at, of);
    auto const fits = of.count <= room;
    if (fits && at.bound <= at.safe) at.safe = at.bound, at.sent = of.count;
    auto const next = at.pass == 0 && fits ? 0 : rule.next(at, of);
    auto const held = static_cast<double>(static_cast<A>(!(next < at.largest) ? at.largest : next > 0 ? next : 0));
    auto const settles = held == at.bound && fits;
    if (settles) at.sent = of.count;
    at.is_over = held == at.bound || is_last ? 1 : 0;
    at.bound = settles || at.is_over == 0 ? held : at.safe;
    ++at.pass;
  }

 private:
  PITH_HD void begin(search& at, survivors const& of) const {
    at.n = n, at.aim = aim, at.room = room;
    at.bound = at.low = 0;
    at.high = at.largest = at.safe = of.largest;
    at.sent = 1;
  }
};

template <class Step, class Terms>
struct take_step {
  using memory = fast_array<double, tile_lanes>;

  Step step;
  search* at;
  double* partial;
  std::uint64_t tiles;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto const of = join_survivors(team, fast.data(), partial, tiles, Terms());
    auto const own = step;
    auto* const to = at;
    team.for_each(1u, [=](std::uint32_t) { own(*to, of); });
  }
};

template <class Rule>
std::size_t search_scratch_bytes(std::uint64_t n) {
  constexpr auto most = Rule::first::size > Rule::later::size ? Rule::first::size : Rule::later::size;
  return scratch_for<double>(most * tiles(n));
}

/// Runs one pass over the source: computes the sums of the terms, and passes these sums to `step`.
template <class Terms, executor E, class Source, class At, class Step>
void sum_once(E const& exec, Source const& from, std::uint64_t n, At const& which, Step const& step, search* at,
              workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto const size = tiles(n);
  auto* const partial = ws.template take<double>(Terms::size * size).data;
  for_each_block_then(exec, size, sum_survivors<Source, At, Terms>{from, n, which, partial},
                      take_step<Step, Terms>{step, at, partial, size}, &at->arrived);
}

/// Finds a bound that about `aim` of the n values reach, where n > 0. At most `room` values reach the bound, or the
/// bound equals the largest magnitude. The function launches a fixed sequence of kernels. Kernels after the end of the
/// search do no work. The result is in `at`.
template <class Rule, executor E, class Source>
void find_threshold(E const& exec, Rule const& rule, Source const& from, std::uint64_t n, double aim, double room,
                    search* at, workspace_on<E>& ws) {
  using A = decltype(from(0));
  using first = typename Rule::first;
  using later = typename Rule::later;
  auto const bound = found_bound<A>{at};
  for (unsigned pass = 0; pass < rule.passes(); ++pass) {
    auto const step = search_step<Rule, A>{rule, static_cast<double>(n), aim, room, pass + 1 == rule.passes()};
    if (pass == 0) {
      sum_once<first>(exec, from, n, bound, step, at, ws);
    } else {
      sum_once<later>(exec, from, n, bound, step, at, ws);
    }
  }
}

}}}  // namespace pith::PITH_ABI::detail
