// pith/codec/detail/entries.hpp — payloads that list entries: pairs of a value and its index.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/core/source.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The index of padding entries, which exceeds the index of any tensor element.
inline constexpr std::uint32_t no_index = 0xffffffffu;

/// Returns how many of k ascending indices are below a bound.
PITH_HD inline std::uint32_t count_below(std::uint32_t const* indices, std::uint32_t k, std::uint64_t bound) {
  std::uint32_t low = 0;
  for (auto high = k; low < high;) {
    auto const middle = low + (high - low) / 2;
    if (indices[middle] < bound) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// True if S declares the maximum number of its entries.
template <class S>
concept counts_entries = requires(S const& s, shape const& dims) {
  { s.max_entries(dims) } -> std::same_as<std::uint64_t>;
};

/// A stage whose payload lists some elements; all other elements decode to zero. `decode_entries` writes
/// max_entries(dims) entries with ascending indices. Padding entries have the index no_index.
template <class S, class In, class E>
concept emits_entries = counts_entries<S> &&
    requires(S const& s, context<In, E> const& cx, encoded_on<E, output_of<S, In> const> y,
             selected_entries<In> const& to) {
  { s.decode_entries(cx, y, to) } -> std::same_as<void>;
};
/// A codec whose payload may list entries. max_entries(dims) is 0 if the payload does not list entries.
template <class C, class In, class E>
concept holds_entries = counts_entries<C> &&
    requires(C const& c, context<In, E> const& cx, span_on<E, std::byte const> payload, selected_entries<In> const& to,
             replicated_of<C, In, E> const& replicated) {
  { c.decode_payload_entries(cx, payload, to, replicated) } -> std::same_as<void>;
};
template <class C, class In, class E>
concept may_hold_entries = emits_entries<C, In, E> || holds_entries<C, In, E>;

template <class In, class E, class C>
std::uint64_t max_entries(C const& c, shape const& dims) {
  if constexpr (may_hold_entries<C, In, E>) {
    return c.max_entries(dims);
  } else {
    return 0;
  }
}

template <class In, class E, class C, class Replicated>
  requires may_hold_entries<C, In, E>
void decode_entries(C const& c, context<In, E> const& cx, span_on<E, std::byte const> payload,
                    selected_entries<In> const& to, Replicated const& replicated) {
  auto const scope = cx.ws.mark();
  if constexpr (holds_entries<C, In, E>) {
    c.decode_payload_entries(cx, payload, to, replicated);
  } else {
    auto const y = sections<output_of<C, In>, E, std::byte const>(c.output_shape(cx.dims).n, payload);
    c.decode_entries(cx, y, to);
  }
}

}}}  // namespace pith::PITH_ABI::detail
