// pith/sparsify/threshold.hpp — sparsification to all entries of at least a given magnitude.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/sparsify/detail/density.hpp>
#include <pith/sparsify/large_entries.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// Keeps the entries with |x| >= tau, but at most max(1, floor(capacity n)) entries. The other elements become zero.
///
///   emits       the kept values of In in ascending order of indices, padded with zeros to the capacity (with
///               overflow::dense, to n values); side information: the count, then indices of ceil(log2 n) bits. If the
///               count exceeds the capacity, the payload contains all n values
///   requires    0 < tau < infinity, 0 < capacity <= 1 (std::invalid_argument), n < 2^32
///   complexity  two passes over x; scratch memory for as many indices as the capacity; the host does not wait
///   on NaN      NaN and infinity are kept
///   properties  a projection with a variable rate. With overflow::keep, shape::capacity bounds the rate. The absolute
///               error bound is tau if the capacity is n, or with overflow::dense. Otherwise, the bound is infinity.
///               With error feedback, entries beyond the capacity stay in the residual
///   reference   Strom, Scalable Distributed DNN Training Using Commodity GPU Cloud Computing, Interspeech 2015, but
///               with unquantized values; Dutta et al., On the Discrepancy between the Theoretical Analysis and
///               Practical Implementations of Compressed Communication, AAAI 2020
template <overflow Policy = overflow::keep>
class threshold : public detail::large_entries_stage<threshold<Policy>, Policy> {
  using base = detail::large_entries_stage<threshold<Policy>, Policy>;
  using base::entries;

 public:
  using facets = ext::facets<ext::bounded>;

  explicit threshold(double tau, double capacity = 1, option<Policy> = {})
      : tau_(tau), capacity_("threshold", capacity, "capacity"), fraction_(capacity) {
    detail::require(tau > 0 && tau <= std::numeric_limits<double>::max(),
                    "threshold: tau must be positive and finite, got ", tau);
  }

  std::string name() const {
    auto const room = fraction_ == 1 && !sends_all ? "" : detail::text(",", capacity_.text());
    return detail::text("threshold(", detail::shortest(tau_), room, sends_all ? ",dense)" : ")");
  }

  double error_bound(shape const& dims) const {
    return sends_all || capacity(dims) == dims.n ? tau_ : std::numeric_limits<double>::infinity();
  }

  std::uint64_t capacity(std::uint64_t n) const { return capacity_.of(n); }
  std::uint64_t capacity(shape const& dims) const { return std::min(capacity(dims.n), dims.capacity); }

  template <real In, executor E>
  std::size_t scratch_bytes(E const&, shape const& dims) const {
    return entries(dims).template scratch_bytes<In>();
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y) const {
    entries(cx.dims).encode(cx.exec, x.data, bound<accum<In>>(), y, cx.ws);
  }

 private:
  static constexpr bool sends_all = Policy == overflow::dense;

  /// Returns the smallest value of type A that is at least tau.
  template <class A>
  detail::fixed_bound<A> bound() const {
    constexpr auto infinity = std::numeric_limits<A>::infinity();
    auto least = tau_ > static_cast<double>(largest_finite<A>) ? infinity : static_cast<A>(tau_);
    if (static_cast<double>(least) < tau_) least = std::nextafter(least, infinity);
    return {detail::magnitude_bits(least)};
  }

  double tau_;
  detail::density capacity_;
  double fraction_;
};

static_assert(stage<threshold<>, float, archetype>);
static_assert(promises_of<threshold<overflow::dense>>.absolute && !detail::rate_adjustable<threshold<>>);

}}  // namespace pith::PITH_ABI
