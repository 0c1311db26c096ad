// pith/sparsify/large_entries.hpp — the payload of entries whose magnitudes reach a bound: a count, values and indices.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/option.hpp>
#include <pith/sparsify/detail/threshold_blocks.hpp>
#include <pith/sparsify/packed_indices.hpp>

#include <algorithm>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// The treatment of a tensor in which more entries reach the threshold than fit into the payload.
enum class overflow : std::uint8_t {
  keep,   ///< sends the entries with the smallest indices; with error feedback, the other entries stay in the residual
  dense,  ///< sends all n values unchanged
};

namespace options {
inline constexpr option<overflow::keep> keep = {};
inline constexpr option<overflow::dense> dense = {};
}  // namespace options

namespace detail {

/// Counts the values that reach a bound, then writes these values in ascending order of indices. Takes two passes over
/// the source.
template <executor E, class Source, class Bound, class Places>
void place_entries(E const& exec, large_values<Source, Bound> const& of, Places const& to) {
  using A = decltype(of.from(0));
  auto const parts = blocks_for(of.n, select_part<A>);
  exec.for_each_block(parts, count_large<Source, Bound>{of});
  exec.for_each_block(1, place_large<Source, Bound>{of, static_cast<std::uint32_t>(parts)});
  exec.for_each_block(parts, emit_large<Source, Bound, Places>{of, to});
}

/// The payload format for those entries of a tensor that reach a bound. The tensor has n elements. The payload has
/// space for `room` entries.
template <overflow Policy>
struct large_entries {
  static constexpr bool sends_all = Policy == overflow::dense;

  std::uint64_t n, room;

  std::uint64_t values() const { return sends_all ? n : room; }
  std::uint64_t used_values(std::uint64_t count) const { return std::min(count, values()); }
  std::size_t side_bytes() const { return used_side_bytes(room); }
  std::size_t used_side_bytes(std::uint64_t count) const {
    if (count > room) count = sends_all ? 0 : room;
    return sizeof(std::uint32_t) + packed_indices().side_bytes(n, count);
  }

  template <class In>
  std::size_t scratch_bytes() const {
    return scratch_for<std::uint32_t>(room) + scratch_for<std::uint32_t>(parts<In>());
  }

  /// Encodes the entries x for which magnitude_bits(x) >= bound().
  template <class In, class Bound, executor E>
  void encode(E const& exec, In const* x, Bound const& bound, encoded_on<E, In> y, workspace_on<E>& ws) const {
    auto* const indices = ws.template take<std::uint32_t>(room).data;
    auto* const counts = ws.template take<std::uint32_t>(parts<In>()).data;
    exec.fill(indices, std::byte{}, value_bytes<std::uint32_t>(room));
    exec.fill(y.values.data, std::byte{}, value_bytes<In>(values()));
    auto const of = large_values<plain_source<In>, Bound>{
        {x}, n, bound, static_cast<std::uint32_t>(room), sends_all, counts, y.values.count};
    place_entries(exec, of, entry_places<In>{x, indices, y.values.data});
    packed_indices().encode(exec, n, room, indices, y.side.subspan(sizeof(std::uint32_t)), ws);
  }
  template <class In, executor E>
  void decode(E const& exec, encoded_on<E, In const> y, values_on<E, In> x, workspace_on<E>& ws) const {
    auto const capacity = static_cast<std::uint32_t>(room);
    auto* const indices = ws.template take<std::uint32_t>(room).data;
    packed_indices().decode(exec, n, room, y.side.subspan(sizeof(std::uint32_t)), indices, ws);
    if constexpr (sends_all) {
      exec.for_each_index(n, expand_all<In>{y.values.data, y.values.count, capacity, x.data});
    } else {
      exec.fill(x.data, std::byte{}, value_bytes<In>(n));
    }
    exec.for_each_index(room, scatter_counted<In>{y.values.data, indices, y.values.count, capacity, sends_all, x.data});
  }
  template <class In, executor E>
  void decode_entries(E const& exec, encoded_on<E, In const> y, selected_entries<In> const& to,
                      workspace_on<E>& ws) const {
    packed_indices().decode(exec, n, room, y.side.subspan(sizeof(std::uint32_t)), to.indices, ws);
    exec.for_each_index(room, drop_uncounted{side_as<std::uint32_t>(y.side), to.indices});
    exec.copy(to.values, y.values.data, value_bytes<In>(room));
  }

 private:
  template <class In>
  std::uint64_t parts() const {
    return blocks_for(n, select_part<accum<In>>);
  }
};

/// A base class for stages that emit `large_entries`. The derived class `Self` defines `encode`, and `capacity(dims)`,
/// which is the largest number of entries.
template <class Self, overflow Policy = overflow::keep>
class large_entries_stage : public codec_base {
 public:
  using engine_facets = ext::facets<ext::used, ext::facet_if<Policy == overflow::keep, ext::entries>>;

  template <class In>
  using output = In;

  static constexpr codec_traits traits = {.projection = true,
                                          .reproducible = true,
                                          .rates = Policy == overflow::keep ? rate_form::bounded : rate_form::variable};

  shape output_shape(shape const& dims) const { return {entries(dims).values()}; }
  template <class In>
  std::size_t side_bytes(shape const& dims) const {
    return entries(dims).side_bytes();
  }

  /// The number of used values, and the number of used bytes of side information, in a payload with the given count.
  /// The unused values and bytes are zero.
  std::uint64_t used_values(shape const& dims, std::uint64_t count) const { return entries(dims).used_values(count); }
  std::size_t used_side_bytes(shape const& dims, std::uint64_t count) const {
    return entries(dims).used_side_bytes(count);
  }

  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, In const> y, values_on<E, In> x) const {
    entries(cx.dims).decode(cx.exec, y, x, cx.ws);
  }
  /// An exchange calls max_entries and decode_entries to compute the mean over many ranks. With overflow::dense, these
  /// functions do not exist, because a payload may contain all values without indices.
  std::uint64_t max_entries(shape const& dims) const requires(Policy == overflow::keep) { return entries(dims).room; }
  template <real In, executor E>
    requires(Policy == overflow::keep)
  void decode_entries(context<In, E> const& cx, encoded_on<E, In const> y, selected_entries<In> const& to) const {
    entries(cx.dims).decode_entries(cx.exec, y, to, cx.ws);
  }

 protected:
  large_entries<Policy> entries(shape const& dims) const {
    return {dims.n, static_cast<Self const&>(*this).capacity(dims)};
  }
};

}  // namespace detail
}}  // namespace pith::PITH_ABI
