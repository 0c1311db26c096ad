// pith/collective/detail/pair_sums.hpp — sums of index-value pairs, in time linear in the number of pairs.
#pragma once

#include <pith/collective/detail/pairs.hpp>
#include <pith/collective/detail/regions.hpp>
#include <pith/core/executor.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The (value, index) pairs of one list, restricted to one region (regions.hpp), and an array of sums for the whole
/// tensor. Functions access the array only at the indices of pairs. The indices in a list must be distinct.
template <class In>
struct listed_sums {
  regions over;
  std::uint32_t region;
  pairs<In const> list;
  accum<In>* sums;

  /// The index of pair j, or `no_index` if the index lies outside the region.
  PITH_HD std::uint32_t element(std::uint64_t j) const {
    return over.holds(region, list.indices[j]) ? list.indices[j] : no_index;
  }
};

template <class In>
struct clear_sums {
  listed_sums<In> of;
  PITH_HD void operator()(std::uint64_t j) const {
    if (auto const i = of.element(j); i != no_index) of.sums[i] = 0;
  }
};

template <class In>
struct add_values {
  listed_sums<In> of;
  accum<In> share;  ///< a power of two, so that the product is exact
  PITH_HD void operator()(std::uint64_t j) const {
    if (auto const i = of.element(j); i != no_index) of.sums[i] += share * element_cast<accum<In>>(of.list.values[j]);
  }
};

/// Moves the sum of an element to the element's entry in the first list that contains the element, and clears the
/// stored sum. In later lists, the element's entry becomes padding, which has the index `no_index`, as does any sum of
/// zero.
template <class In>
struct take_sums {
  listed_sums<In> of;
  pairs<accum<In>> to;
  PITH_HD void operator()(std::uint64_t j) const {
    auto const i = of.element(j);
    auto const sum = i == no_index ? 0 : of.sums[i];
    to.values[j] = sum;
    to.indices[j] = sum == 0 ? no_index : i;
    if (i != no_index) of.sums[i] = 0;
  }
};

/// From several lists, adds those pairs whose indices lie in one region. list(l) returns the n pairs of list l < lists,
/// and the lists are added in ascending order of l. Each value is first multiplied by `share`, a power of two, so that
/// the sums do not overflow. `to` has capacity for all pairs of all lists; unused entries become padding.
template <class In, class E, class Lists>
void add_up_pairs(E const& exec, regions const& over, std::uint32_t region, unsigned lists, std::uint64_t n,
                  Lists const& list, accum<In> share, accum<In>* sums, pairs<accum<In>> const& to) {
  auto const of = [&](unsigned l) { return listed_sums<In>{over, region, list(l), sums}; };
  for (unsigned l = 0; l < lists; ++l) exec.for_each_index(n, clear_sums<In>{of(l)});
  for (unsigned l = 0; l < lists; ++l) exec.for_each_index(n, add_values<In>{of(l), share});
  for (unsigned l = 0; l < lists; ++l)
    exec.for_each_index(n, take_sums<In>{of(l), {to.values + l * n, to.indices + l * n}});
}

}}}  // namespace pith::PITH_ABI::detail
