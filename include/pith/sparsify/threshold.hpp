// pith/sparsify/threshold.hpp — keep the entries of at least a magnitude, however many they are.
#pragma once

#include <pith/coding/packed_indices.hpp>
#include <pith/core/capability.hpp>
#include <pith/core/stage.hpp>
#include <pith/sparsify/density.hpp>
#include <pith/sparsify/threshold_blocks.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace pith::inline v0 {

/// What becomes of entries for which there is no room.
enum class overflow : std::uint8_t {
  keep,   ///< the first ones by index are sent; with error feedback the others wait in the residual
  dense,  ///< all n values are sent as they are
};

/// Keeps the entries |x| >= tau, of which the payload has room for max(1, floor(capacity n)); the others become zero.
///
///   emits    a count of values of In, by ascending index, and zeros behind them, capacity of them (dense: n); side
///            record: the count, then indices of ceil(log2 n) bits. A count above the capacity says: all n values
///   needs    0 < tau < infinity, 0 < capacity <= 1 (std::invalid_argument), n < 2^32
///   cost     two passes over x; scratch an index for each place, no host wait
///   errors   NaN and infinity are kept
///   is       a projection of variable rate, which shape::room bounds (keep); absolute: error_bound = tau where nothing
///            can overflow or what does is sent densely, else no number: keep what overflows by error feedback
///   source   Strom, Scalable Distributed DNN Training Using Commodity GPU Cloud Computing, Interspeech 2015, with
///            values as they are; Dutta et al., On the Discrepancy between the Theoretical Analysis and Practical
///            Implementations of Compressed Communication, AAAI 2020
template <overflow Policy = overflow::keep>
class threshold : public pipeable {
 public:
  template <class In>
  using output = In;

  static constexpr bool is_projection = true;
  static constexpr bool is_reproducible = true;
  static constexpr bool is_variable_rate = true;
  static constexpr rate_form rates = Policy == overflow::keep ? rate_form::bounded : rate_form::variable;

  explicit threshold(double tau, double capacity = 1)
      : tau_(tau), capacity_("threshold", capacity, "capacity"), fraction_(capacity) {
    detail::require(tau > 0 && tau <= std::numeric_limits<double>::max(),
                    "threshold: tau must be positive and finite, got ", tau);
  }

  std::string name() const {
    auto const room = fraction_ == 1 && !sends_all ? "" : detail::text(",", capacity_.text());
    return detail::text("threshold(", detail::shortest(tau_), room, sends_all ? ",dense)" : ")");
  }
  /// The same payload size with another tau.
  threshold at(double tau) const { return threshold(tau, fraction_); }

  double error_bound(shape const& dims) const {
    return sends_all || capacity(dims) == dims.n ? tau_ : std::numeric_limits<double>::infinity();
  }

  /// The entries that there is room for.
  std::uint64_t capacity(std::uint64_t n) const { return capacity_.of(n); }
  std::uint64_t capacity(shape const& dims) const { return std::min(capacity(dims.n), dims.room); }

  shape output_shape(shape const& dims) const { return {sends_all ? dims.n : capacity(dims)}; }
  std::size_t side_bytes(shape const& dims) const { return used_side_bytes(dims, capacity(dims)); }

  /// What a payload of so many values uses of its room: zeros are behind.
  std::uint64_t used_values(shape const& dims, std::uint64_t count) const {
    return std::min(count, output_shape(dims).n);
  }
  std::size_t used_side_bytes(shape const& dims, std::uint64_t count) const {
    auto const room = capacity(dims);
    if (count > room) count = sends_all ? 0 : room;
    return sizeof(std::uint32_t) + packed_indices().side_bytes(dims.n, count);
  }

  template <real In, executor E>
  std::size_t scratch_bytes(E const&, shape const& dims) const {
    return scratch_for<std::uint32_t>(capacity(dims)) + scratch_for<std::uint32_t>(parts<In>(dims.n));
  }

  template <real In, executor E>
  void encode(E const& exec, shape const& dims, stream_on<E, In const> x, encoded_on<E, In> y,
              workspace_on<E>& ws) const {
    auto const room = capacity(dims);
    auto* const indices = ws.template take<std::uint32_t>(room).data;
    auto* const counts = ws.template take<std::uint32_t>(parts<In>(dims.n)).data;
    exec.fill(indices, std::byte{}, stream_bytes<std::uint32_t>(room));
    exec.fill(y.values.data, std::byte{}, stream_bytes<In>(output_shape(dims).n));
    auto const of = detail::large_values<In>{x.data,    dims.n, bound<accum<In>>(), static_cast<std::uint32_t>(room),
                                             sends_all, counts, y.values.count};
    exec.for_each_block(parts<In>(dims.n), detail::count_large<In>{of});
    exec.for_each_block(1, detail::place_large<In>{of, parts<In>(dims.n)});
    exec.for_each_block(parts<In>(dims.n), detail::emit_large<In>{of, {indices, y.values.data}});
    packed_indices().encode(exec, dims.n, room, indices, y.side.subspan(sizeof(std::uint32_t)), ws);
  }
  template <real In, executor E>
  void decode(E const& exec, shape const& dims, encoded_on<E, In const> y, stream_on<E, In> x,
              workspace_on<E>& ws) const {
    auto const room = static_cast<std::uint32_t>(capacity(dims));
    auto* const indices = ws.template take<std::uint32_t>(room).data;
    packed_indices().decode(exec, dims.n, room, y.side.subspan(sizeof(std::uint32_t)), indices, ws);
    if constexpr (sends_all) {
      exec.for_each_index(dims.n, detail::expand_all<In>{y.values.data, y.values.count, room, x.data});
    } else {
      exec.fill(x.data, std::byte{}, stream_bytes<In>(dims.n));
    }
    exec.for_each_index(room,
                        detail::scatter_counted<In>{y.values.data, indices, y.values.count, room, sends_all, x.data});
  }

 private:
  static constexpr bool sends_all = Policy == overflow::dense;

  /// The bits of the least A that is not below tau.
  template <class A>
  detail::bits_of<A> bound() const {
    auto least = static_cast<A>(tau_);
    if (static_cast<double>(least) < tau_) least = std::nextafter(least, std::numeric_limits<A>::infinity());
    return detail::magnitude_bits(least);
  }
  template <class In>
  static std::uint32_t parts(std::uint64_t n) {
    constexpr auto part = detail::select_part<accum<In>>;
    return static_cast<std::uint32_t>((n + part - 1) / part);
  }

  double tau_;
  detail::density capacity_;
  double fraction_;
};

static_assert(stage<threshold<>, float, detail::archetype> && projection<threshold<>> && variable_rate<threshold<>>);
static_assert(absolute<threshold<overflow::dense>> && rate_adjustable<threshold<>> && !isometric<threshold<>>);

}  // namespace pith::inline v0
