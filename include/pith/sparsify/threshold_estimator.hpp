// pith/sparsify/threshold_estimator.hpp — the engine of sparsifiers that estimate a threshold.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/sparsify/detail/density.hpp>
#include <pith/sparsify/detail/threshold_search.hpp>
#include <pith/sparsify/large_entries.hpp>

#include <algorithm>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// A stage built from a search rule (detail::search_step). The stage keeps about k entries of largest magnitude, and at
/// most 2 k - 1 entries, where k = max(1, floor(density n)). The other elements become zero. If at most 2 k - 1
/// elements are nonzero, the stage keeps all nonzero elements.
///
///   emits       the kept values of In in ascending order of indices, padded with zeros to 2 k - 1 values; side
///               information: the count, then indices of ceil(log2 n) bits
///   requires    0 < density <= 1 (std::invalid_argument), n < 2^32
///   complexity  at most the rule's number of passes over x, and two passes that write the payload; scratch memory for
///               2 k indices, and a few doubles per 16,384 values; the host does not wait
///   on NaN      NaN and infinity are kept and are excluded from the estimate. If more than 2 k - 1 entries reach the
///               threshold because of NaN and infinity, the entries with the smallest indices are kept
///   properties  a projection with a variable rate, which shape::capacity bounds; contractive with delta = 1 / n,
///               because one of the largest elements is always kept. The stage may keep fewer than k entries if the
///               rule finds no bound whose entries fit into the payload
template <class Rule>
class threshold_estimator : public detail::large_entries_stage<threshold_estimator<Rule>> {
  using base = detail::large_entries_stage<threshold_estimator<Rule>>;
  using base::entries;

 public:
  using engine_facets = ext::facets<ext::contractive, ext::used, ext::entries>;

  threshold_estimator(char const* method, double density, Rule rule)
      : density_(method, density), fraction_(density), rule_(rule) {}

  double density() const { return fraction_; }
  Rule const& rule() const { return rule_; }

  double delta(shape const& dims) const {
    return dims.n == 0 ? 1 : capacity(dims) == 0 ? 0 : 1 / static_cast<double>(dims.n);
  }

  /// `kept` is the target number of entries. `capacity` is the largest number of entries in a payload.
  std::uint64_t kept(shape const& dims) const { return std::min(density_.of(dims.n), capacity(dims)); }
  std::uint64_t capacity(shape const& dims) const {
    auto const k = density_.of(dims.n);
    return k == 0 ? 0 : std::min({2 * k - 1, dims.n, dims.capacity});
  }

  template <real In, executor E>
  std::size_t scratch_bytes(E const&, shape const& dims) const {
    return scratch_for<detail::search>(1) +
           std::max(detail::search_scratch_bytes<Rule>(dims.n), entries(dims).template scratch_bytes<In>());
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y) const {
    encode_by(cx.exec, rule_, cx.dims, x, y, cx.ws);
  }

 protected:
  /// Finds a bound with `rule`, and encodes the entries that reach this bound. Returns the final state of the search.
  template <real In, executor E>
  detail::search const* encode_by(E const& exec, Rule const& rule, shape const& dims, values_on<E, In const> x,
                                  encoded_on<E, In> y, workspace_on<E>& ws) const {
    auto* const at = ws.template take<detail::search>(1).data;
    exec.fill(at, std::byte{}, sizeof(*at));
    auto const aim = static_cast<double>(kept(dims)), room = static_cast<double>(capacity(dims));
    if (dims.n > 0) detail::find_threshold(exec, rule, ext::plain_source<In>{x.data}, dims.n, aim, room, at, ws);
    entries(dims).encode(exec, x.data, detail::found_bound<accum<In>>{at}, y, ws);
    return at;
  }

 private:
  detail::density density_;
  double fraction_;
  Rule rule_;
};

}}  // namespace pith::PITH_ABI
