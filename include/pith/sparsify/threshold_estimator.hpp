// pith/sparsify/threshold_estimator.hpp — the engine of sparsifiers that estimate a threshold instead of selecting.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/sparsify/detail/density.hpp>
#include <pith/sparsify/detail/threshold_search.hpp>
#include <pith/sparsify/large_entries.hpp>

#include <algorithm>
#include <cstdint>

namespace pith::inline v0 {

/// A stage from a search rule (detail::search_step). It keeps about k = max(1, floor(density n)) entries of largest
/// magnitude, and at most 2 k - 1. The others become zero. If no more than 2 k - 1 are nonzero, it keeps all of them.
///
///   emits       a number of values of In, by ascending index, followed by zeros up to 2 k - 1; side information: the
///               count, then indices of ceil(log2 n) bits
///   requires    0 < density <= 1 (std::invalid_argument), n < 2^32
///   complexity  the passes of the rule over x, which end early, and two more; scratch 2 k indices, and a few doubles
///               per 16,384 values; no host wait
///   on NaN      NaN and infinity are kept, the first ones by index, and are excluded from the estimate
///   properties  a projection of variable rate, which shape::capacity bounds; contractive with delta = 1 / n, because
///               one of the largest is always kept. If the rule finds no bound whose entries fit, fewer are kept
template <class Rule>
class threshold_estimator : public detail::large_entries_stage<threshold_estimator<Rule>> {
  using base = detail::large_entries_stage<threshold_estimator<Rule>>;
  using base::entries;

 public:
  threshold_estimator(char const* method, double density, Rule rule)
      : density_(method, density), fraction_(density), rule_(rule) {}

  double density() const { return fraction_; }
  Rule const& rule() const { return rule_; }

  double delta(shape const& dims) const {
    return dims.n == 0 ? 1 : capacity(dims) == 0 ? 0 : 1 / static_cast<double>(dims.n);
  }

  /// The number of entries that are sought, and the number that fits.
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
  void encode(E const& exec, shape const& dims, values_on<E, In const> x, encoded_on<E, In> y,
              workspace_on<E>& ws) const {
    encode_by(exec, rule_, dims, x, y, ws);
  }

 protected:
  /// Encodes by the bound that `rule` finds; returns the final state of the search.
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

}  // namespace pith::inline v0
