// pith/codec/detail/chain_types.hpp — the input and state types of a chain's stages, and which stages a chain fuses.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/source.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// `type` is the output type of a chain's last stage. `type` exists if each stage accepts the previous stage's output.
template <class In, class... S>
struct chained {};
template <class In>
struct chained<In> {
  using type = In;
};
template <class In, class First, class... Rest>
  requires requires { typename output_of<First, In>; }
struct chained<In, First, Rest...> : chained<output_of<First, In>, Rest...> {};

/// True if each stage accepts the output of the previous stage.
template <class In, class E, class... S>
struct joined : std::true_type {};
template <class In, class E, class First, class... Rest>
struct joined<In, E, First, Rest...> : std::false_type {};
template <class In, class E, class First, class... Rest>
  requires stage<First, In, E>
struct joined<In, E, First, Rest...> : joined<output_of<First, In>, E, Rest...> {
};

template <class In, class E, class... S>
concept fits = joined<In, E, S...>::value;

template <std::size_t I, class In, class... S>
struct input_at {
  using type = In;
};
template <std::size_t I, class In, class First, class... Rest>
  requires(I > 0)
struct input_at<I, In, First, Rest...> : input_at<I - 1, output_of<First, In>, Rest...> {};

template <std::size_t I, class... S>
using stage_at = std::tuple_element_t<I, std::tuple<S...>>;

template <class... State>
inline constexpr bool keeps_state = (!stateless<State> || ...);

/// The states of a chain with stages `S...`, for values of `In`.
template <class In, class E, class Indices, class... S>
struct chain_states;
template <class In, class E, std::size_t... I, class... S>
struct chain_states<In, E, std::index_sequence<I...>, S...> {
  template <std::size_t J>
  using input = typename input_at<J, In, S...>::type;
  using replicated = states<replicated_part, replicated_of<S, input<I>, E>...>;
  using local = states<local_part, local_of<S, input<I>, E>...>;

  static constexpr bool any_replicated = keeps_state<replicated_of<S, input<I>, E>...>;
  static constexpr bool any_local = keeps_state<local_of<S, input<I>, E>...>;
};
template <class In, class E, class... S>
using states_of = chain_states<In, E, std::index_sequence_for<S...>, S...>;

template <std::size_t I, class States>
constexpr auto& part(States& states) {
  if constexpr (stateless<States>) {
    return nothing;
  } else {
    return std::get<I>(states.each);
  }
}

/// A transform that can write its tiles to block-local memory, where a quantizer reads them.
template <class S>
concept transforms_tiles = declares<S, emits_tiles>;
/// A quantizer that reads a transform's tiles from block-local memory. Transform and quantizer then form one pass.
template <class S, class In, class E>
concept takes_tiles =
    std::same_as<In, accum<In>> && declares<S, reads_tiles> && reads_source<S, In, E, plain_source<In>>;

template <class In, class E, class... S>
inline constexpr bool fuses_tiles = false;
template <class In, class E, class First, class Second>
  requires transforms_tiles<First> && takes_tiles<Second, In, E>
inline constexpr bool fuses_tiles<In, E, First, Second> = true;

/// True if no stage of a chain has a state.
template <class In, class E, class... S>
inline constexpr bool keeps_nothing = true;
template <class In, class E, class First, class... Rest>
inline constexpr bool keeps_nothing<In, E, First, Rest...> =
    !keeps_state<replicated_of<First, In, E>, local_of<First, In, E>> &&
    keeps_nothing<output_of<First, In>, E, Rest...>;

/// True if the first stage can select entries from a source, and the other stages have no states.
template <class In, class E, class Source, class... S>
inline constexpr bool fuses_picks = false;
template <class In, class E, class Source, class First, class Second, class... Rest>
  requires selects_from<First, In, E, Source> && keeps_nothing<In, E, Second, Rest...>
inline constexpr bool fuses_picks<In, E, Source, First, Second, Rest...> = true;

}}}  // namespace pith::PITH_ABI::detail
