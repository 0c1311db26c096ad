// pith/comm/tensor_parts.hpp — a tensor in equal parts, each encoded as a tensor of its own.
#pragma once

#include <pith/core/call.hpp>
#include <pith/core/error.hpp>
#include <pith/core/pack.hpp>
#include <pith/core/saving.hpp>
#include <pith/core/workspace.hpp>

#include <algorithm>
#include <cstdint>

namespace pith::inline v0::detail {

/// A tensor of n elements in equal parts, one for each rank; those of the last ranks may be short or empty.
struct tensor_parts {
  std::uint64_t n, size;

  constexpr tensor_parts(std::uint64_t elements, unsigned ranks, std::uint64_t granule)
      : n(elements), size(align_up(elements / ranks + (elements % ranks != 0), granule)) {}

  constexpr std::uint64_t first(unsigned rank) const { return std::min(n, rank * size); }
  constexpr shape dims(unsigned rank) const { return {std::min(size, n - first(rank))}; }
};

/// Parts begin at buckets, and where random numbers come in groups.
template <class C>
std::uint64_t part_granule(C const& c) {
  if constexpr (requires { c.granule(); }) return std::max<std::uint64_t>(c.granule(), group);
  return group;
}

/// The call that encodes a part.
inline call call_at(call id, std::uint64_t first) {
  id.first = first;
  return id;
}

/// Refuses a codec whose state, made for a whole tensor, is not empty.
template <class C>
void require_no_state(char const* exchange, C const& codec, auto& state) {
  auto counted = field_counter();
  state.fields(counted);
  require(counted.bytes == 0, exchange, ": ", codec.name(),
          " must have no state: parts of a tensor share none; feedback goes around: ef(", exchange, "(c))");
}

}  // namespace pith::inline v0::detail
