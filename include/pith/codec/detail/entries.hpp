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

/// C returns the maximum number of its entries; 0 if the payload does not list entries.
template <class C>
concept counts_entries = requires(C const& c, shape const& dims) {
  { c.max_entries(dims) } -> std::same_as<std::uint64_t>;
};

/// A codec whose payload may list some elements; all other elements decode to zero. `decode_entries` writes
/// max_entries(dims) entries with ascending indices. Padding entries have the index no_index. A stage reads its output;
/// a codec that is not a stage reads its payload.
template <class C, class In, class E>
concept lists_entries = counts_entries<C> &&
    ((!has_payload<C, In, E> &&
      requires(C const& c, context<In, E> const& cx, encoded_on<E, output_of<C, In> const> y,
               selected_entries<In> const& to) {
        { c.decode_entries(cx, y, to) } -> std::same_as<void>;
      }) ||
     (has_payload<C, In, E> && requires(C const& c, context<In, E> const& cx, span_on<E, std::byte const> payload,
                                        selected_entries<In> const& to, replicated_of<C, In, E> const& replicated) {
       { c.decode_entries(cx, payload, to, replicated) } -> std::same_as<void>;
     }));

template <class In, class E, class C>
std::uint64_t max_entries(C const& c, shape const& dims) {
  if constexpr (lists_entries<C, In, E>) {
    return c.max_entries(dims);
  } else {
    return 0;
  }
}

template <class In, class E, class C, class Replicated>
  requires lists_entries<C, In, E>
void decode_entries(C const& c, context<In, E> const& cx, span_on<E, std::byte const> payload,
                    selected_entries<In> const& to, Replicated const& replicated) {
  auto const scope = cx.ws.mark();
  if constexpr (has_payload<C, In, E>) {
    c.decode_entries(cx, payload, to, replicated);
  } else {
    c.decode_entries(cx, output_in<In>(c, cx, payload), to);
  }
}

}}}  // namespace pith::PITH_ABI::detail
