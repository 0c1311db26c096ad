// pith/wire/frame.hpp — frames for storage and untrusted peers: a payload with a header that open() verifies.
#pragma once

#include <pith/wire/header.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Fails to compile if the executor is not a host executor, or if the codec has no payload.
template <class In, class C, class E>
constexpr void explain_frame() {
  static_assert(host_executor<E>,
                "pith: frames are sealed and opened in host memory: download the payload first, or inside a job use "
                "checked(codec, flag)");
  static_assert(codec<C, In, E>,
                "pith: a frame needs a codec with a payload; this collective has only rounds of an exchange");
}

template <class E>
std::uint64_t payload_checksum(E const& exec, span<std::byte const> payload, workspace_on<E>& ws) {
  std::uint64_t sum = 0;
  checksum_into(exec, &sum, payload, ws);
  exec.wait();
  return sum;
}

/// Throws wire_error if the frame has another codec, element type, shape or size.
template <class In, class C>
void require_same(C const& codec, shape const& dims, wire::header const& h, std::size_t frame_bytes) {
  auto const name = codec.name();
  require_wire(h.codec == name, "open: the frame's codec must be ", name, ", got ", printable(h.codec));
  require_wire(h.element == kind_of<In>(), "open: the frame's elements must be ", name_of(kind_of<In>()), ", got ",
               name_of(h.element));
  require_wire(h.dims.n == dims.n && h.dims.rows == dims.rows, "open: the frame's tensor must have ", dims.n,
               " elements in ", dims.rows, " rows, got ", h.dims.n, " in ", h.dims.rows);
  auto const size = payload_bytes<In>(codec, dims);
  require_wire(h.payload_bytes == size, "open: the payload must have ", size, " bytes, got ", h.payload_bytes);
  require_wire(frame_bytes == h.bytes() + size, "open: the frame must have ", h.bytes() + size, " bytes, got ",
               frame_bytes);
}

}  // namespace detail

namespace wire {

/// The size in bytes of a frame: a header and a payload.
template <class In, class C>
std::size_t frame_bytes(C const& codec, shape const& dims) {
  return detail::header_bytes(codec.name().size()) + payload_bytes<In>(codec, dims);
}

/// The number of workspace bytes that `seal` and `open` need.
template <class In, class C, executor E>
std::size_t workspace_bytes(E const& exec, C const& codec, shape const& dims) {
  return std::max(pith::workspace_bytes<In>(exec, codec, dims),
                  checksum_scratch_bytes(exec, payload_bytes<In>(codec, dims)) + detail::scratch_alignment);
}

/// Writes a header and the payload of `gradient` to `frame`. As in compress(), the step of `state` increases by 1.
///
///   requires    an 8-byte aligned frame of frame_bytes<In>(codec, dims) bytes (std::invalid_argument), ws of
///               wire::workspace_bytes<In>(exec, codec, dims) bytes
///   complexity  compresses, and reads the payload once more. Waits for the executor; allocates strings for the codec's
///               name
///   errors      if seal throws std::invalid_argument, the state is unchanged
template <class In, executor E, class C>
void seal(E const& exec, C const& codec, span_on<E, std::type_identity_t<In> const> gradient,
          span_on<E, std::byte> frame, codec_state<In, C, E>& state, workspace_on<E>& ws) {
  detail::explain_frame<In, C, E>();
  auto const id = state.id();
  auto h = header{codec.name(), kind_of<In>(), state.dims(), 0, {id.seed, id.tensor, id.rank}, 0, 0};
  h.payload_bytes = payload_bytes<In>(codec, h.dims);
  detail::require_size("wire::seal", "frame", h.bytes() + h.payload_bytes, frame.size(), " bytes");
  detail::require_aligned("wire::seal", "frame", frame.data());
  detail::require_name("wire::seal", h.codec);
  ws.require("wire::seal", "wire::workspace_bytes", wire::workspace_bytes<In>(exec, codec, h.dims));
  auto const payload = frame.subspan(h.bytes());
  compress(exec, codec, gradient, payload, state, ws);
  h.payload_checksum = detail::payload_checksum(exec, span<std::byte const>(payload), ws);
  h.step = *id.step;
  write_header(h, frame);
}

/// Decodes the payload of `frame` into `gradient` and returns the header. The frame may come from any rank and any
/// step. Its version may be the current one or an earlier one. `state` provides the shape and the codec's replicated
/// state. The step of `state` does not change.
///
///   requires    an 8-byte aligned frame (std::invalid_argument), ws as for seal
///   errors      wire_error if the bytes are not a frame, if the version is unknown, if codec, element type, shape or
///               length differ, or if a checksum is wrong. The message contains the expected and the found value. After
///               an error, the gradient is unchanged
///   complexity  reads the payload once, and decompresses. Waits for the executor; allocates strings for the codec's
///               name
template <class In, executor E, class C>
header open(E const& exec, C const& codec, span_on<E, std::byte const> frame,
            span_on<E, std::type_identity_t<In>> gradient, codec_state<In, C, E>& state, workspace_on<E>& ws) {
  detail::explain_frame<In, C, E>();
  auto const environment = detail::default_float_environment();
  auto const& dims = state.dims();
  detail::require_values("wire::open", "gradient", dims.n, gradient);
  detail::require_aligned("wire::open", "frame", frame.data());
  auto h = read_header(frame);
  detail::require_same<In>(codec, dims, h, frame.size());
  ws.require("wire::open", "wire::workspace_bytes", wire::workspace_bytes<In>(exec, codec, dims));
  auto const payload = frame.subspan(h.bytes());
  auto const sum = detail::payload_checksum(exec, payload, ws);
  detail::require_wire(sum == h.payload_checksum, "open: the payload is damaged: its checksum must be ",
                       h.payload_checksum, ", got ", sum);
  auto id = encoding_id{&h.step, h.owner.seed, 0, h.owner.tensor, h.owner.rank, 0, 0};
  id.is_version_0 = h.frame_version == 0;
  detail::decode_payload<In>(codec, context<In, E>{exec, id, dims, ws}, payload,
                             values_on<E, In>{gradient.data(), dims.n}, state.replicated());
  exec.wait();
  return h;
}

}  // namespace wire
}}  // namespace pith::PITH_ABI
