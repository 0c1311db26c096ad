// pith/sparsify/redsync_mean.hpp — the largest entries of one sign, sent as indices and one mean.
#pragma once

#include <pith/sparsify/redsync.hpp>

#include <algorithm>
#include <bit>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// A source that returns zero in place of the finite values of one sign. Values of the other sign, NaN and infinity are
/// returned unchanged.
template <class In>
struct one_sign {
  static constexpr bool stores_residual = false;
  using A = accum<In>;

  In const* x;
  std::uint32_t const* is_negative;

  PITH_HD A operator()(std::uint64_t i) const { return of(*is_negative, element_cast<A>(x[i])); }

  template <class Team, class Count>
  PITH_HD A const* load(Team const& team, std::uint64_t first, Count count, A* room) const {
    auto const* const from = x + first;
    auto const negative = *is_negative;
    team.for_each(count, [=](std::uint32_t i) { room[i] = of(negative, element_cast<A>(from[i])); });
    return room;
  }

 private:
  PITH_HD static A of(std::uint32_t negative, A p) {
    auto const counts = static_cast<std::uint32_t>(sign_bit(p)) == negative || magnitude_bits(p) >= infinite_bits<A>();
    return bits_as<A>(bits_as<bits_of<A>>(p) & (bits_of<A>{0} - static_cast<bits_of<A>>(counts)));
  }
};

/// A bound that all nonzero finite values reach.
template <class A>
struct any_value {
  PITH_HD bool is_over() const { return false; }
  PITH_HD bits_of<A> bits() const { return 1; }
  PITH_HD bits_of<A> end() const { return infinite_bits<A>(); }
};

/// The bound that the search found, with the difference that NaN and infinity also reach this bound.
template <class A>
struct all_found : found_bound<A> {
  PITH_HD bool is_over() const { return false; }
  PITH_HD bits_of<A> end() const { return beyond_bits<A>; }
};

/// Prefers the positive sign in even steps, and the negative sign in odd steps. If the preferred sign's largest
/// magnitude is less than half of the other sign's largest magnitude, chooses the other sign. Otherwise chooses the
/// preferred sign.
struct choose_sign {
  std::uint64_t const* step;
  std::uint32_t* is_negative;

  PITH_HD void operator()(search&, survivors const& of) const {
    auto const turn = static_cast<std::uint32_t>(*step % 2);
    auto const own = turn == 0 ? of.max_above : of.max_below, other = turn == 0 ? of.max_below : of.max_above;
    *is_negative = own < other / 2 ? 1 - turn : turn;
  }
};

/// The side information: the number of index bytes, the number of entries, and the mean of the entries.
template <class A>
struct mean_record {
  std::uint32_t bytes, entries;
  A mean;
};

template <class A>
struct record_mean {
  mean_record<A>* to;

  PITH_HD void operator()(search&, survivors const& of) const {
    to->mean = of.count == 0 ? A{0} : finite_or_nan(static_cast<A>(of.signed_sum / of.count));
  }
};

struct index_places {
  std::uint32_t* indices;

  PITH_HD void put(std::uint32_t place, std::uint32_t i) const { indices[place] = i; }
  PITH_HD void copy(std::uint64_t) const {}
};

struct count_bytes {
  std::uint32_t const* entries;
  std::uint32_t* bytes;
  std::uint64_t width;

  PITH_HD void operator()(std::uint64_t) const { *bytes = static_cast<std::uint32_t>((*entries * width + 7) / 8); }
};

template <class In>
struct scatter_mean {
  mean_record<accum<In>> const* of;
  std::uint32_t const* indices;
  In* x;

  PITH_HD void operator()(std::uint64_t j) const {
    if (j < of->entries) x[indices[j]] = element_cast<In>(of->mean);
  }
};

template <class In>
struct list_mean {
  mean_record<accum<In>> const* of;
  selected_entries<In> to;

  PITH_HD void operator()(std::uint64_t j) const {
    to.values[j] = element_cast<In>(of->mean);
    if (j >= of->entries) to.indices[j] = no_index;
  }
};

}  // namespace detail

/// Keeps about k entries and replaces them by their mean, where k = max(1, floor(density n)). The entries are the
/// largest positive elements in even steps, and the negative elements of largest magnitude in odd steps. If the largest
/// magnitude of this sign is less than half of the largest magnitude of the other sign, the entries are elements of the
/// other sign instead. All other elements become zero.
///
///   emits       the bytes of at most 2 k - 1 ascending indices with ceil(log2 n) bits each, followed by zeros; side
///               information: the number of index bytes, the number of indices, the mean in accum<In>
///   requires    0 < density <= 1, n < 2^32, indices of less than 2^32 bytes (std::invalid_argument)
///   complexity  one pass for the signs, the passes of redsync, and three more; scratch memory for 2 k indices; the
///               host does not wait
///   on NaN      NaN and infinity are kept, and the mean becomes NaN. So does the mean of doubles whose sum overflows
///   properties  a projection with a variable rate, which shape::capacity bounds; contractive with delta =
///               1 / (4 n (2 k - 1)). This delta follows from two facts about the m kept entries. Their decoded values
///               have the squared norm (sum of the entries)^2 / m, and the largest of the entries is at least
///               max |x_i| / 2. For typical tensors, 1 - |error|^2 / |x|^2 is much larger than delta
///   reference   Fang, Fu, Yang and Hsieh, RedSync, JPDC 2019 ("quantised sets"). Unlike in that paper, even steps
///               prefer the positive sign for every tensor
class redsync_mean : public codec_base {
 public:
  using facets = ext::facets<ext::contractive, ext::rate, ext::entries>;

  template <class In>
  using output = packed<8>;

  static constexpr codec_traits traits = {.projection = true, .reproducible = true, .rates = rate_form::bounded};

  explicit redsync_mean(double density) : density_("redsync_mean", density), fraction_(density) {}

  std::string name() const { return detail::text("redsync_mean(", detail::shortest(fraction_), ")"); }
  redsync_mean at(double density) const { return redsync_mean(density); }

  double delta(shape const& dims) const {
    auto const most = static_cast<double>(entries(dims));
    return dims.n == 0 ? 1 : most == 0 ? 0 : 1 / (4 * static_cast<double>(dims.n) * most);
  }

  /// The capacity as a number of indices. The capacity in `dims` is a number of bytes.
  std::uint64_t entries(shape const& dims) const {
    auto const k = density_.of(dims.n), most = k == 0 ? 0 : std::min(2 * k - 1, dims.n);
    auto const held = bytes_of(dims, most) <= dims.capacity ? most : dims.capacity * 8 / width(dims);
    detail::require(bytes_of(dims, held) <= 0xffffffffu, "redsync_mean: indices must have at most 2^32 - 1 bytes, got ",
                    bytes_of(dims, held), ": split the tensor");
    return held;
  }

  shape output_shape(shape const& dims) const { return {bytes_of(dims, entries(dims))}; }
  template <real In>
  std::size_t side_bytes(shape const&) const {
    return sizeof(detail::mean_record<accum<In>>);
  }

  template <real In, executor E>
  std::size_t scratch_bytes(E const&, shape const& dims) const {
    using namespace detail;
    return scratch_for<search>(1) + scratch_for<std::uint32_t>(1) + scratch_for<double>(2 * tiles(dims.n)) +
           scratch_for<std::uint32_t>(entries(dims)) +
           scratch_for<std::uint32_t>(blocks_for(dims.n, select_part<accum<In>>));
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, packed<8>> y) const {
    using namespace detail;
    using A = accum<In>;
    auto* const at = cx.ws.template take<search>(1).data;
    auto* const is_negative = cx.ws.template take<std::uint32_t>(1).data;
    auto const all = plain_source<In>{x.data};
    auto const own = one_sign<In>{x.data, is_negative};
    auto* const record = side_as<mean_record<A>>(y.side);
    auto const found = found_bound<A>{at};
    cx.exec.fill(at, std::byte{}, sizeof(*at));
    cx.exec.fill(record, std::byte{}, sizeof(*record));
    if (cx.dims.n > 0) {
      sum_once<terms<largest_above, largest_below>>(cx.exec, all, cx.dims.n, any_value<A>(),
                                                    choose_sign{cx.id.step, is_negative}, at, cx.ws);
      find_threshold(cx.exec, redsync_rule(), own, cx.dims.n, aim(cx.dims), static_cast<double>(entries(cx.dims)), at,
                     cx.ws);
      sum_once<terms<how_many, value_sum>>(cx.exec, own, cx.dims.n, all_found<A>{found}, record_mean<A>{record}, at,
                                           cx.ws);
    }
    encode_indices(cx, own, found, &record->entries, y.values);
    cx.exec.for_each_index(1, count_bytes{&record->entries, &record->bytes, width(cx.dims)});
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, packed<8> const> y, values_on<E, In> x) const {
    auto const most = entries(cx.dims);
    auto* const indices = cx.ws.template take<std::uint32_t>(most).data;
    packed_indices().decode(cx.exec, cx.dims.n, most, bytes_in<E>(y.values), indices, cx.ws);
    cx.exec.fill(x.data, std::byte{}, value_bytes<In>(cx.dims.n));
    auto const* const record = side_as<detail::mean_record<accum<In>>>(y.side);
    cx.exec.for_each_index(most, detail::scatter_mean<In>{record, indices, x.data});
  }
  std::uint64_t max_entries(shape const& dims) const { return entries(dims); }
  template <real In, executor E>
  void decode_entries(context<In, E> const& cx, encoded_on<E, packed<8> const> y,
                      ext::selected_entries<In> const& to) const {
    packed_indices().decode(cx.exec, cx.dims.n, entries(cx.dims), bytes_in<E>(y.values), to.indices, cx.ws);
    auto const* const record = side_as<detail::mean_record<accum<In>>>(y.side);
    cx.exec.for_each_index(entries(cx.dims), detail::list_mean<In>{record, to});
  }

 private:
  static std::uint64_t width(shape const& dims) {
    return dims.n < 2 ? 0 : static_cast<std::uint64_t>(std::bit_width(dims.n - 1));
  }
  static std::uint64_t bytes_of(shape const& dims, std::uint64_t most) {
    return packed_indices().side_bytes(dims.n, most);
  }
  double aim(shape const& dims) const { return static_cast<double>(std::min(density_.of(dims.n), entries(dims))); }

  template <class In, class E, class Source, class Bound>
  void encode_indices(context<In, E> const& cx, Source const& own, Bound const& found, std::uint32_t* count,
                      values_on<E, packed<8>> to) const {
    auto const most = entries(cx.dims);
    auto* const indices = cx.ws.template take<std::uint32_t>(most).data;
    auto* const counts =
        cx.ws.template take<std::uint32_t>(detail::blocks_for(cx.dims.n, detail::select_part<decltype(own(0))>)).data;
    cx.exec.fill(indices, std::byte{}, value_bytes<std::uint32_t>(most));
    detail::place_entries(cx.exec,
                          detail::large_values<Source, Bound>{own, cx.dims.n, found, static_cast<std::uint32_t>(most),
                                                              false, counts, count},
                          detail::index_places{indices});
    packed_indices().encode(cx.exec, cx.dims.n, most, indices, bytes_in<E>(to), cx.ws);
  }

  template <class E, class Stream>
  static auto bytes_in(Stream const& values) {
    if constexpr (std::is_const_v<std::remove_pointer_t<decltype(values.data)>>) {
      return span_on<E, std::byte const>(reinterpret_cast<std::byte const*>(values.data), values.capacity);
    } else {
      return span_on<E, std::byte>(reinterpret_cast<std::byte*>(values.data), values.capacity);
    }
  }

  detail::density density_;
  double fraction_;
};

static_assert(stage<redsync_mean, float, archetype> && promises_of<redsync_mean>.contractive);
static_assert(detail::rate_adjustable<redsync_mean>);

}}  // namespace pith::PITH_ABI
