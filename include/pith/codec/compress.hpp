// pith/codec/compress.hpp — compress and decompress, and the workspace that they need.
#pragma once

#include <pith/codec/codec_state.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/core/detail/float_environment.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// The number of workspace bytes that compress and decompress need. With `ranks` > 0, this number also suffices for
/// all_reduce_mean over `ranks` ranks.
template <class In, class C, executor E>
std::size_t workspace_bytes(E const& exec, C const& codec, shape const& dims, unsigned ranks = 0) {
  auto most = detail::scratch_bytes<In>(codec, exec, dims);
  if (ranks > 0) {
    most = std::max(most, detail::exchange_scratch_bytes<In>(codec, exec, dims, ranks));
    std::size_t moving = 0;
    for (unsigned r = 0; r < codec.rounds(dims, ranks); ++r) {
      auto const [sent, received] = detail::bytes_of(detail::transfer_of<In>(codec, r, dims, ranks), ranks);
      moving = std::max(moving, scratch_for<std::byte>(sent) + scratch_for<std::byte>(received));
    }
    most += moving;
  }
  return most + detail::scratch_alignment;
}

namespace detail {

inline void require_size(char const* verb, char const* what, std::size_t expected, std::size_t got,
                         char const* unit = " elements") {
  require(expected == got, verb, ": ", what, " must have ", expected, unit, ", got ", got);
}
inline void require_room(char const* verb, std::size_t expected, std::size_t got) {
  require(got >= expected, verb, ": payload must have at least ", expected, " bytes, got ", got);
}
/// Throws if the workspace has fewer than workspace_bytes, which encoding and decoding need.
template <class In, class C, executor E>
void require_scratch(char const* verb, E const& exec, C const& codec, shape const& dims, workspace_on<E> const& ws) {
  ws.require(verb, "workspace_bytes", workspace_bytes<In>(exec, codec, dims));
}
inline void require_aligned(char const* verb, char const* what, void const* at, std::size_t to = section_alignment) {
  auto const beyond = reinterpret_cast<std::uintptr_t>(at) % to;
  require(beyond == 0, verb, ": ", what, " must be aligned to ", to, " bytes, got an address ", beyond, " bytes off");
}
/// Throws unless the span has `expected` aligned elements and, if there are any, an address.
template <class T, class Space>
void require_values(char const* verb, char const* what, std::size_t expected, span<T, Space> x) {
  require_size(verb, what, expected, x.size());
  require(x.data() != nullptr || expected == 0, verb, ": ", what, " must be an address of ", expected,
          " elements, got null");
  require_aligned(verb, what, x.data(), alignof(T));
}

template <class S, class C, class E>
inline constexpr bool is_state_for = false;
template <class In, class C, class E>
inline constexpr bool is_state_for<codec_state<In, C, E>, C, E> = true;

/// `readable_by` and `writable_by` are true if codec C on E, with a state of type S, can read or write a gradient of
/// type X.
template <class X, class S, class C, class E>
concept readable_by = is_state_for<S, C, E> && std::convertible_to<X, span_on<E, typename S::element const>>;
template <class X, class S, class C, class E>
concept writable_by = is_state_for<S, C, E> && std::convertible_to<X, span_on<E, typename S::element>>;

template <class X, class E>
inline constexpr bool is_elsewhere = false;
template <class T, memory_space Space, class E>
inline constexpr bool is_elsewhere<span<T, Space>, E> = !std::same_as<Space, space_of<E>>;

/// Fails to compile. The message names the argument that has a wrong type: the gradient X or the state S.
template <class X, class S, class C, class E>
constexpr void explain_arguments() {
  static_assert(is_state_for<S, C, E>,
                "pith: the state was made for another codec or executor: pass what make_state<In>(exec, codec, shape) "
                "returned for these");
  if constexpr (is_elsewhere<std::remove_cvref_t<X>, E>) {
    explain_space<E, typename std::remove_cvref_t<X>::space>();
  } else {
    static_assert(!is_state_for<S, C, E>,
                  "pith: the gradient has other elements than its state, or is const where it is written: for a "
                  "gradient of In the state is make_state<In>(exec, codec, shape)");
  }
}

}  // namespace detail

/// Begins the state's next step. Encodes `x` into the first payload_bytes<In>(codec, dims) bytes of `payload`, which
/// must be 8-byte aligned.
template <class In, executor E, class C>
void compress(E const& exec, C const& codec, span_on<E, std::type_identity_t<In> const> x,
              span_on<E, std::byte> payload, codec_state<In, C, E>& state, workspace_on<E>& ws) {
  auto const environment = detail::default_float_environment();
  auto const& dims = state.dims();
  auto const size = payload_bytes<In>(codec, dims);
  detail::require_values("compress", "x", dims.n, x);
  detail::require_room("compress", size, payload.size());
  detail::require_aligned("compress", "payload", payload.data());
  codec.require_states(state.replicated(), state.local());
  detail::require_scratch<In>("compress", exec, codec, dims, ws);
  state.advance(exec);
  detail::encode_payload<In>(codec, state.context_on(exec, ws), values_on<E, In const>{x.data(), dims.n},
                             payload.first(size), state.replicated(), state.local());
}

template <executor E, class C, class X, class Payload, class S>
  requires(!detail::readable_by<X, S, C, E>)
void compress(E const&, C const&, X&&, Payload&&, S&, workspace_on<E>&) { detail::explain_arguments<X, S, C, E>(); }

namespace detail {

/// Decodes the payload that the encoding `id` has made.
template <class In, executor E, class C>
void decompress_as(E const& exec, C const& codec, span_on<E, std::byte const> payload,
                   span_on<E, std::type_identity_t<In>> x, codec_state<In, C, E>& state, workspace_on<E>& ws,
                   encoding_id const& id) {
  auto const environment = default_float_environment();
  auto const& dims = state.dims();
  auto const size = payload_bytes<In>(codec, dims);
  require_values("decompress", "x", dims.n, x);
  require_room("decompress", size, payload.size());
  require_aligned("decompress", "payload", payload.data());
  codec.require_states(state.replicated(), state.local());
  require_scratch<In>("decompress", exec, codec, dims, ws);
  decode_payload<In>(codec, context<In, E>{exec, id, dims, ws}, payload.first(size), values_on<E, In>{x.data(), dims.n},
                     state.replicated());
}

}  // namespace detail

/// Decodes `payload`, which rank `from` compressed in the state's current step, into `x`. `payload` must be 8-byte
/// aligned.
template <class In, executor E, class C>
void decompress(E const& exec, C const& codec, span_on<E, std::byte const> payload,
                span_on<E, std::type_identity_t<In>> x, codec_state<In, C, E>& state, workspace_on<E>& ws,
                std::uint16_t from) {
  auto id = state.id();
  id.rank = from;
  detail::decompress_as<In>(exec, codec, payload, x, state, ws, id);
}

/// Decodes a payload that this rank compressed.
template <class In, executor E, class C>
void decompress(E const& exec, C const& codec, span_on<E, std::byte const> payload,
                span_on<E, std::type_identity_t<In>> x, codec_state<In, C, E>& state, workspace_on<E>& ws) {
  decompress(exec, codec, payload, x, state, ws, state.id().rank);
}

template <executor E, class C, class Payload, class X, class S>
  requires(!detail::writable_by<X, S, C, E>)
void decompress(E const&, C const&, Payload&&, X&&, S&, workspace_on<E>&, std::uint16_t = 0) {
  detail::explain_arguments<X, S, C, E>();
}

}}  // namespace pith::PITH_ABI
