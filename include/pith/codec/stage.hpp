// pith/codec/stage.hpp — the stage concept: encoding of values to fewer or smaller values and side information.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec_base.hpp>
#include <pith/codec/context.hpp>
#include <pith/codec/state.hpp>
#include <pith/core/element.hpp>
#include <pith/core/values.hpp>

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

/// The type of the values that stage `S` emits for values of `In`.
template <class S, class In>
using output_of = typename std::remove_cvref_t<S>::template output<In>;

namespace detail {

/// The number of scratch bytes that encoding and decoding take. For a variable-rate stage, the number includes space
/// for a copy of the count, which is the number of emitted values. Decoding limits this copy to the capacity.
template <class In, class S, class E>
constexpr std::size_t scratch_bytes(S const& s, E const& exec, shape const& dims) {
  constexpr auto count = traits_of<S>.is_variable() ? scratch_for<std::uint32_t>(1) : 0;
  if constexpr (requires { s.template scratch_bytes<In>(exec, dims); }) {
    return s.template scratch_bytes<In>(exec, dims) + count;
  } else {
    return count;
  }
}

template <class S, class In, class E>
concept encodes_alone = requires(S const& s, context<In, E> const& cx, values_on<E, In const> x,
                                 encoded_on<E, output_of<S, In>> y) {
  { s.encode(cx, x, y) } -> std::same_as<void>;
};
template <class S, class In, class E>
concept encodes_with_states = requires(S const& s, context<In, E> const& cx, values_on<E, In const> x,
                                       encoded_on<E, output_of<S, In>> y, replicated_of<S, In, E> const& replicated,
                                       local_of<S, In, E>& local) {
  { s.encode(cx, x, y, replicated, local) } -> std::same_as<void>;
};
template <class S, class In, class E>
concept decodes_alone = requires(S const& s, context<In, E> const& cx, encoded_on<E, output_of<S, In> const> y,
                                 values_on<E, In> x) {
  { s.decode(cx, y, x) } -> std::same_as<void>;
};
template <class S, class In, class E>
concept decodes_with_state = requires(S const& s, context<In, E> const& cx, encoded_on<E, output_of<S, In> const> y,
                                      values_on<E, In> x, replicated_of<S, In, E> const& replicated) {
  { s.decode(cx, y, x, replicated) } -> std::same_as<void>;
};

/// S has an output type for values of `In`.
template <class S, class In>
concept has_output = requires {
  typename storage<output_of<S, In>>::word;
};

/// S has a name, which contains the parameters of S and appears in frame headers and digests.
template <class S>
concept has_name = requires(S const& s) {
  { s.name() } -> std::convertible_to<std::string>;
};

/// S encodes values of type `In`. The result consists of values of type `output_of<S, In>` and of side information.
template <class S, class In, class E>
concept encodes = encodes_alone<S, In, E> || encodes_with_states<S, In, E>;

/// S decodes the result of `encode`, which consists of values of type `output_of<S, In>` and of side information, to
/// values of type `In`.
template <class S, class In, class E>
concept decodes = decodes_alone<S, In, E> || decodes_with_state<S, In, E>;

template <class S, class In, class E>
concept stage_on = std::derived_from<S, codec_base> && std::copyable<S> && has_output<S, In> && has_name<S> &&
    encodes<S, In, E> && decodes<S, In, E>;

}  // namespace detail

/// A stage is a codec that can be part of a chain. It has a template `output<In>`, the type `Out` of the emitted values,
/// and `name()`, a text with all parameters. `encode` and `decode` are const, return void, never allocate and never
/// wait:
///
///     encode(context<In, E> const&, values_on<E, In const>, encoded_on<E, Out>[, replicated const&, local&])
///     decode(context<In, E> const&, encoded_on<E, Out const>, values_on<E, In>[, replicated const&])
///
/// A stage without states omits the arguments in brackets. A variable-rate stage writes the number of its values to
/// *y.values.count. This count lies in the side information (by default, the first 4 bytes; see count_offset). A
/// variable-rate stage also writes zeros to the unused slots after its values. The count that `decode` receives is at
/// most the capacity, even for a corrupt payload.
template <class S, class In, class E>
concept stage = executor<E> && detail::stage_on<std::remove_cvref_t<S>, In, E>;

namespace detail {

/// Creates the replicated state of a stage in a chain. Throws if the stage does not accept the shape. The state is
/// empty if only the stage's own rounds use it (keeps_for_exchange).
template <class In, class S, class E>
replicated_of<S, In, E> make_replicated_in_chain(E const& exec, S const& s, encoding_id const& id, shape const& dims) {
  if constexpr (traits_of<S>.keeps_for_exchange) {
    static_cast<void>(s.output_shape(dims));
    return {};
  } else {
    return pith::make_replicated<In>(exec, s, id, dims);
  }
}

/// Returns `y`, with a pointer to its count if the stage has a variable rate.
template <class In, class S, class Encoded>
Encoded counted(S const& s, shape const& dims, Encoded y) {
  if constexpr (traits_of<S>.is_variable())
    y.values.count = side_as<std::uint32_t>(y.side.subspan(s.template count_offset<In>(dims)));
  return y;
}

struct clamp_count {
  std::uint32_t const* from;
  std::uint32_t* to;
  std::uint64_t most;
  PITH_HD void operator()(std::uint64_t) const { *to = *from < most ? *from : static_cast<std::uint32_t>(most); }
};

/// Returns `y`, a view of a received payload. If the stage has a variable rate, the returned view points to a copy of
/// the payload's count, clamped to the capacity.
template <class In, class S, class E, class Encoded>
Encoded trusted(S const& s, context<In, E> const& cx, Encoded y) {
  if constexpr (traits_of<S>.is_variable()) {
    auto* const count = cx.ws.template take<std::uint32_t>(1).data;
    cx.exec.for_each_index(1, clamp_count{counted<In>(s, cx.dims, y).values.count, count, y.values.capacity});
    y.values.count = count;
  }
  return y;
}

/// `encode` and `decode` run a stage, which may or may not have states. Then they free the scratch memory that the
/// stage took.
template <class In, class S, class E, class Replicated, class Local>
void encode(S const& s, context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, output_of<S, In>> y,
            [[maybe_unused]] Replicated const& replicated, [[maybe_unused]] Local& local) {
  auto const scope = cx.ws.mark();
  auto const to = counted<In>(s, cx.dims, y);
  if constexpr (encodes_alone<S, In, E>) {
    s.encode(cx, x, to);
  } else {
    s.encode(cx, x, to, replicated, local);
  }
}

template <class In, class S, class E, class Replicated>
void decode(S const& s, context<In, E> const& cx, encoded_on<E, output_of<S, In> const> y, values_on<E, In> x,
            [[maybe_unused]] Replicated const& replicated) {
  auto const scope = cx.ws.mark();
  auto const safe = trusted<In>(s, cx, y);
  if constexpr (decodes_alone<S, In, E>) {
    s.decode(cx, safe, x);
  } else {
    s.decode(cx, safe, x, replicated);
  }
}

}  // namespace detail

}}  // namespace pith::PITH_ABI
