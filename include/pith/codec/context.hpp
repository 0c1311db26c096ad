// pith/codec/context.hpp — the arguments that all functions of a codec share.
#pragma once

#include <pith/core/draws.hpp>
#include <pith/core/element.hpp>
#include <pith/core/executor.hpp>
#include <pith/core/shape.hpp>
#include <pith/core/workspace.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// The arguments of a codec's functions besides the data: the executor, the id that determines the random numbers, the
/// shape of the tensor, scratch memory and the number of ranks. `In` is the element type of the codec's input.
template <class In, executor E>
struct context {
  E const& exec;
  encoding_id id;
  shape dims;
  workspace_on<E>& ws;
  unsigned ranks = 1;
  /// A power of two, in the executor's memory, by which an exchange multiplies the decoded mean; null means 1.
  double const* common = nullptr;

  /// The same context with another element type, id, shape or number of ranks.
  template <class Other>
  constexpr context<Other, E> of() const {
    return {exec, id, dims, ws, ranks, common};
  }
  constexpr context with(shape const& other) const { return {exec, id, other, ws, ranks, common}; }
  constexpr context with(encoding_id const& other) const { return {exec, other, dims, ws, ranks, common}; }
  constexpr context with(encoding_id const& other, shape const& part) const {
    return {exec, other, part, ws, ranks, common};
  }
  constexpr context with(encoding_id const& other, shape const& part, unsigned among) const {
    return {exec, other, part, ws, among, common};
  }
  /// The context in which a payload of rank `from` is decoded.
  constexpr context from_rank(unsigned from) const {
    auto other = id;
    other.rank = static_cast<std::uint16_t>(from);
    return with(other);
  }
  /// The context of the next stage of a chain. The next stage reads values of type `Out` and shape `rest`.
  template <class Out>
  constexpr context<Out, E> next(shape const& rest) const {
    return {exec, next_stage(id), rest, ws, ranks, common};
  }
};

}}  // namespace pith::PITH_ABI
