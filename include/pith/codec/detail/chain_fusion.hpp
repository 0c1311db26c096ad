// pith/codec/detail/chain_fusion.hpp — concepts for stages that a chain fuses with each other or with a source.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/core/source.hpp>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A transform that can write its tiles to block-local memory, where a quantizer reads them.
template <class S, class In>
concept transforms_tiles = requires(S const& s, encoding_id const& id, shape const& dims) {
  s.template transformed<In>(id, dims, plain_source<In>());
};
/// A quantizer that reads a transform's tiles from block-local memory. Transform and quantizer then form one pass.
template <class S, class In, class E>
concept takes_tiles = std::same_as<In, accum<In>> && reads_source<S, In, E, plain_source<In>> &&
    requires(S const& s, std::uint64_t n) {
  { s.holds_tiles(n, E::items_per_block, 1u) } -> std::same_as<bool>;
};

template <class In, class E, class... S>
inline constexpr bool fuses_tiles = false;
template <class In, class E, class First, class Second>
  requires transforms_tiles<First, In> && takes_tiles<Second, In, E>
inline constexpr bool fuses_tiles<In, E, First, Second> = true;

/// True if no stage of a chain has a state.
template <class In, class E, class... S>
inline constexpr bool keeps_nothing = true;
template <class In, class E, class First, class... Rest>
inline constexpr bool keeps_nothing<In, E, First, Rest...> =
    stateless<replicated_of<First, In, E>> && stateless<local_of<First, In, E>> &&
    keeps_nothing<output_of<First, In>, E, Rest...>;

/// True if the first stage can select entries from a source, and the other stages have no states.
template <class In, class E, class Source, class... S>
inline constexpr bool fuses_picks = false;
template <class In, class E, class Source, class First, class Second, class... Rest>
  requires selects_from<First, In, E, Source> && keeps_nothing<In, E, Second, Rest...>
inline constexpr bool fuses_picks<In, E, Source, First, Second, Rest...> = true;

}}}  // namespace pith::PITH_ABI::detail
