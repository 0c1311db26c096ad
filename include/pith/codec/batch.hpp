// pith/codec/batch.hpp — encoding and decoding of many tensors with one codec, in a few kernel launches.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/codec/segments.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

namespace detail {

struct clear_paddings {
  segment const* segments;
  std::byte* payloads;
  PITH_HD void operator()(std::uint64_t s) const {
    for (std::uint64_t i = 1; i <= segments[s].padding; ++i) payloads[segments[s].side - i] = std::byte{0};
  }
};

constexpr encoding_id of_tensor(encoding_id id, std::uint32_t tensor) {
  id.tensor = tensor;
  return id;
}

template <class In, class E, class C>
constexpr void explain_batch() {
  static_assert(
      stateless<replicated_of<C, In, E>> && stateless<local_of<C, In, E>>,
      "pith: encode_batch and decode_batch need a codec without state; compress tensors with states one by one");
}

/// Throws std::invalid_argument if the table was made for a codec or element type with other segments. Also throws if
/// the gradients or the payloads are smaller than the table requires, or are not aligned.
template <class In, class C, class E>
void require_batch(char const* verb, C const& codec, segment_table<E> const& table, span_on<E, In const> gradients,
                   span_on<E, std::byte const> payloads) {
  if (!has_segments_of<In>(codec, table)) {
    throw std::invalid_argument(sentence(verb, ": table must have the segments of ", codec.name(), " for ",
                                         element_name<In>(),
                                         " elements, got others: make it with make_segments of this codec"));
  }
  require(gradients.size() >= table.elements(), verb, ": gradients must have at least ", table.elements(),
          " elements, got ", gradients.size());
  require(payloads.size() >= table.payload_bytes(), verb, ": payloads must have at least ", table.payload_bytes(),
          " bytes, got ", payloads.size());
  require_aligned(verb, "gradients", gradients.data(), alignof(In));
  require_aligned(verb, "payloads", payloads.data());
}

}  // namespace detail

/// The number of workspace bytes that encode_batch and decode_batch need.
template <class In, class C, executor E>
std::size_t batch_workspace_bytes(E const& exec, C const& codec, segment_table<E> const& table) {
  if constexpr (detail::batches<C>) {
    return codec.batch().template scratch_bytes<In>(table) + detail::scratch_alignment;
  } else {
    std::size_t most = 0;
    for (auto const& t : table.tensors()) most = std::max(most, detail::scratch_bytes<In>(codec, exec, t.dims));
    return most + detail::scratch_alignment;
  }
}

/// Encodes the tensors of a table. The random numbers of a tensor depend on `id` and on the tensor's number.
///
///   emits       at each payload's offset, the same payload as compress; bytes between payloads do not change
///   requires    a codec without state, which equals the codec that make_segments received; payloads that are aligned
///               to 8 bytes (std::invalid_argument)
///   complexity  a quantizer launches a fixed number of kernels for any number of tensors. Other codecs process the
///               tensors one by one. The call neither allocates nor waits
template <class In, executor E, class C>
void encode_batch(E const& exec, C const& codec, encoding_id const& id, segment_table<E> const& table,
                  span_on<E, In const> gradients, span_on<E, std::byte> payloads, workspace_on<E>& ws) {
  detail::explain_batch<In, E, C>();
  auto const environment = detail::default_float_environment();
  detail::require_batch<In>("encode_batch", codec, table, gradients, span_on<E, std::byte const>(payloads));
  ws.require("encode_batch", "batch_workspace_bytes", batch_workspace_bytes<In>(exec, codec, table));
  if constexpr (detail::batches<C>) {
    auto const clear = detail::clear_paddings{table.segments(), payloads.data()};
    if (table.has_padding()) exec.for_each_index(table.tensors().size(), clear);
    codec.batch().template encode<In>(exec, id, table, gradients.data(), payloads.data(), ws);
  } else {
    for (auto const& t : table.tensors()) {
      auto const x = values_on<E, In const>{gradients.data() + t.first, t.dims.n};
      auto const payload = payloads.subspan(t.payload, payload_bytes<In>(codec, t.dims));
      auto const own = context<In, E>{exec, detail::of_tensor(id, t.tensor), t.dims, ws};
      detail::encode_payload<In>(codec, own, x, payload, detail::nothing, detail::nothing);
    }
  }
}

/// Decodes the tensors of a table. `id` must equal the `id` of the encoding, including the encoder's rank.
template <class In, executor E, class C>
void decode_batch(E const& exec, C const& codec, encoding_id const& id, segment_table<E> const& table,
                  span_on<E, std::byte const> payloads, span_on<E, std::type_identity_t<In>> gradients,
                  workspace_on<E>& ws) {
  detail::explain_batch<In, E, C>();
  auto const environment = detail::default_float_environment();
  detail::require_batch<In>("decode_batch", codec, table, span_on<E, In const>(gradients), payloads);
  ws.require("decode_batch", "batch_workspace_bytes", batch_workspace_bytes<In>(exec, codec, table));
  if constexpr (detail::batches<C>) {
    codec.batch().template decode<In>(exec, table, payloads.data(), gradients.data());
  } else {
    for (auto const& t : table.tensors()) {
      auto const x = values_on<E, In>{gradients.data() + t.first, t.dims.n};
      auto const payload = payloads.subspan(t.payload, payload_bytes<In>(codec, t.dims));
      auto const own = context<In, E>{exec, detail::of_tensor(id, t.tensor), t.dims, ws};
      detail::decode_payload<In>(codec, own, payload, x, detail::nothing);
    }
  }
}

}}  // namespace pith::PITH_ABI
