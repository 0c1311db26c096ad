// pith/collective/ok_top_k.hpp — a global top-k all-reduce in two sparse rounds, with sums by region.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/collective/detail/pair_sums.hpp>
#include <pith/collective/detail/pairs.hpp>
#include <pith/collective/detail/regions.hpp>
#include <pith/collective/detail/sparse_exchange.hpp>
#include <pith/sparsify/select.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The numbers of index-value pairs in each round. The tensor is divided into `regions` regions, and one rank owns each
/// region. Each rank selects k pairs. An owner receives up to `sent` pairs from every rank, and sends `kept` pairs to
/// all ranks.
struct ok_top_k_sizes {
  std::uint64_t n, k, regions, sent, kept;

  ok_top_k_sizes(std::uint64_t elements, std::uint64_t largest, unsigned ranks)
      : n(elements),
        k(largest),
        regions(std::clamp<std::uint64_t>(k, 1, ranks)),
        sent(k / regions + (k % regions != 0)),
        kept(std::min(2 * sent, k)) {
    require(ranks * kept <= 0xffffffffu, "ok_top_k: entries of ", ranks, " ranks must be at most 2^32 - 1, got ",
            ranks * kept, ": split the tensor");
  }
};

/// Copies a rank's selected entries to the owners' pieces of the payload. If a rank has more entries in a region than
/// the owner's piece can contain, copying starts at a different entry in each step, so that every entry is sent
/// eventually.
template <class In>
struct send_pairs {
  pairs<In> own;
  std::uint32_t const* starts;
  std::uint64_t const* step;
  pair_pieces<In> to;
  std::uint32_t* sent;
  std::uint64_t sent_size;

  PITH_HD void operator()(std::uint64_t i) const {
    auto const region = i / to.size(), j = i % to.size();
    std::uint64_t const first = starts[region], last = starts[region + 1], due = last > first ? last - first : 0;
    auto const turn = due > to.size() ? (*step * to.size() + j) % due : j;
    auto const is_pair = j < due;
    to.values(region)[j] = is_pair ? own.values[first + turn] : In();
    auto const index = is_pair ? own.indices[first + turn] : no_index;
    to.indices(region)[j] = index;
    if (i < sent_size) sent[i] = index;
  }
};

/// Writes the payload that an owner sends to all ranks: the sums that it selected, times `share`.
template <class In>
struct keep_sums {
  pairs<accum<In>> from;
  std::uint32_t const* picked;
  accum<In> share;
  pair_pieces<In> to;
  PITH_HD void operator()(std::uint64_t j) const {
    to.values(0)[j] = saturated_cast<In>(bounded_product(share, from.values[picked[j]]));
    to.indices(0)[j] = from.indices[picked[j]];
  }
};

/// Collects the entries from all owners in one list. An entry outside its owner's region is dropped.
template <class In>
struct collect_pairs {
  regions over;
  pair_pieces<In const> in;
  pairs<accum<In>> to;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const owner = i / in.size(), j = i % in.size();
    auto const index = in.indices(owner)[j];
    auto const is_pair = over.holds(owner, index);
    to.values[i] = is_pair ? element_cast<accum<In>>(in.values(owner)[j]) : 0;
    to.indices[i] = is_pair ? index : no_index;
  }
};

}  // namespace detail

/// Exchanges the k entries of largest magnitude of each rank, where k = max(1, floor(density n)). Every rank owns a
/// region of the tensor. An owner sums the entries that all ranks send for its region, and sends the largest of its
/// sums to all ranks. The result on all ranks is the k largest received sums, divided by the number of ranks. The
/// bounds of the regions change in each step. Each rank proposes bounds that divide its selected entries evenly among
/// the owners. The next step uses the mean of all ranks' proposals.
///
///   requires    0 < density <= 1 (std::invalid_argument), n < 2^32; a communicator with all_to_all
///   state       replicated: k bounds. Rank-local: 2 k indices and k pairs, which a saved state omits
///   complexity  two transfers of fixed size, no host wait. Each of N ranks sends at most ceil(k / N) pairs to each
///               other rank in the first transfer, and 2 ceil(k / N) pairs to all ranks in the second. So a rank sends
///               about 6 k (N - 1) / N words, where an index or a value is one word. Each rank selects three times,
///               from n, about k and about 2 k entries. Needs scratch of n elements of accum<In>, but accesses only the
///               elements of received entries
///   on NaN      NaN counts as larger than infinity, and infinity as larger than all other values
///   errors      the result may differ from the k largest exact sums. If a rank has more than ceil(k / N) entries for
///               an owner, the rank sends only ceil(k / N) of these entries; with error feedback, the residual contains
///               the unsent entries. An owner sends only 2 ceil(k / N) sums of its region
///   properties  outside an exchange, ok_top_k behaves as the codec top_k. In error_feedback, the residual omits each
///               entry that the rank sent, if the result contains a sum at the entry's index. So N x mean + sum of
///               residuals = sum of compensated gradients
///   reference   Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, PPoPP 2022. The paper
///               estimates thresholds; in ok_top_k, selections are exact, and bounds change in every step
class ok_top_k : public detail::sparse_exchange {
 public:
  using facets = ext::facets<ext::contractive, ext::rate, ext::rounds, ext::delivered>;

  explicit ok_top_k(double density) : sparse_exchange("ok_top_k", density) {}

  ok_top_k at(double density) const { return ok_top_k(density); }
  bool states_follow_rate() const { return true; }

  template <executor E>
  struct bounds {
    buffer<std::uint32_t, E> words;
    void fields(field_visitor& f) { f(words); }
  };
  /// The state that all rounds of a step use, and that a saved state omits.
  template <executor E>
  struct between {
    buffer<std::uint32_t, E> sent;
    buffer<std::byte, E> region_sums;
    void fields(field_visitor&) {}
  };

  template <real In, executor E>
  bounds<E> make_replicated(E const& exec, encoding_id const&, shape const& dims) const {
    return {buffer<std::uint32_t, E>(exec, std::max<std::uint64_t>(kept(dims.n), 1))};
  }
  template <real In, executor E>
  between<E> make_local(E const& exec, shape const& dims) const {
    auto const k = kept(dims.n);
    return {buffer<std::uint32_t, E>(exec, 2 * k), buffer<std::byte, E>(exec, detail::pairs_bytes<In>(k, 1))};
  }

  unsigned rounds(shape const&, unsigned) const { return 2; }
  template <real In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const {
    auto const size = sizes(dims, ranks);
    return {r == 0 ? transport::all_to_all : transport::all_gather, element_kind::bytes,
            detail::pairs_bytes<In>(r == 0 ? size.sent : size.kept, 1)};
  }
  template <real In, executor E>
  std::size_t exchange_scratch_bytes(E const&, shape const& dims, unsigned ranks) const {
    using A = accum<In>;
    auto const size = sizes(dims, ranks);
    auto const sent = ranks * size.sent, received = ranks * size.kept;
    auto const own = pairs_scratch_bytes<In>(size.k) + scratch_for<std::uint32_t>(ranks + 1u) +
                     selection_scratch_bytes<In>(size.n, size.k);
    auto const sums = scratch_for<A>(size.n) + pairs_scratch_bytes<A>(sent) + pairs_scratch_bytes<A>(size.kept) +
                      selection_scratch_bytes<A>(sent, size.kept);
    return std::max({own, sums,
                     pairs_scratch_bytes<A>(received) + pairs_scratch_bytes<A>(size.k) +
                         selection_scratch_bytes<A>(received, size.k)});
  }

  template <real In, executor E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               bounds<E> const& replicated, between<E>& local) const {
    if (round == 1) return cx.exec.copy(out.data(), local.region_sums.data(), out.size());
    auto const size = sizes(cx.dims, cx.ranks);
    auto const own = take_pairs<In>(size.k, cx.ws);
    ext::select_largest(cx.exec, ext::plain_source<In>{x.data}, cx.dims.n, size.k,
                        ext::selected_entries<In>{own.indices, own.values}, cx.ws);
    auto const over = over_regions(size, replicated);
    auto const k = static_cast<std::uint32_t>(size.k);
    auto* const starts = cx.ws.template take<std::uint32_t>(cx.ranks + 1u).data;
    auto const to = detail::pair_pieces<In>(out.data(), size.sent, out.size() / cx.ranks);
    cx.exec.fill(out.data(), std::byte{}, out.size());
    cx.exec.for_each_index(cx.ranks + 1u, detail::find_starts{over, own.indices, k, starts});
    cx.exec.for_each_index(cx.ranks * size.sent, detail::send_pairs<In>{own, starts, cx.id.step, to, local.sent.data(),
                                                                        size.regions * size.sent});
    if (size.k > 0) cx.exec.for_each_index(cx.ranks, detail::propose_begin<In>{over, own.indices, k, to});
  }

  template <real In, executor E>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x, bounds<E>& replicated,
              between<E>& local) const {
    auto const size = sizes(cx.dims, cx.ranks);
    auto const over = over_regions(size, replicated);
    auto const pieces = detail::pair_pieces<In const>(in.bytes.data(), round == 0 ? size.sent : size.kept, in.stride);
    if (round == 0) return add_up(cx, over, pieces, local);
    receive(cx, over, pieces, x);
    cx.exec.for_each_index(1, detail::adopt_begins<In>{over, pieces, replicated.words.data()});
  }

  /// Sets `sent` to the entries of p that this rank sent and that are in the mean.
  template <real In, executor E>
  void delivered(context<In, E> const& cx, values_on<E, In const> p, values_on<E, In const> mean, values_on<E, In> sent,
                 bounds<E> const&, between<E> const& local) const {
    auto const size = sizes(cx.dims, cx.ranks);
    cx.exec.fill(sent.data, std::byte{}, value_bytes<In>(cx.dims.n));
    cx.exec.for_each_index(size.regions * size.sent,
                           detail::place_arrived<In>{local.sent.data(), p.data, mean.data, sent.data});
  }

 private:
  detail::ok_top_k_sizes sizes(shape const& dims, unsigned ranks) const { return {dims.n, kept(dims.n), ranks}; }

  template <executor E>
  static detail::regions over_regions(detail::ok_top_k_sizes const& size, bounds<E> const& replicated) {
    return {replicated.words.data(), static_cast<std::uint32_t>(size.n), static_cast<std::uint32_t>(size.regions)};
  }

  /// Sums the received entries of this rank's region, and keeps the largest sums for the next round.
  template <class In, class E>
  void add_up(context<In, E> const& cx, detail::regions const& over, detail::pair_pieces<In const> const& in,
              between<E>& local) const {
    using A = accum<In>;
    auto const size = sizes(cx.dims, cx.ranks);
    auto* const sums = cx.ws.template take<A>(size.n).data;
    auto const from = take_pairs<A>(cx.ranks * size.sent, cx.ws), picked = take_pairs<A>(size.kept, cx.ws);
    auto const lists = [&](unsigned r) { return detail::pairs<In const>{in.values(r), in.indices(r)}; };
    auto const most = static_cast<A>(std::bit_ceil(cx.ranks));  // each value is divided by it, so that no sum overflows
    detail::add_up_pairs<In>(cx.exec, over, cx.id.rank, cx.ranks, size.sent, lists, 1 / most, sums, from);
    ext::select_largest(cx.exec, ext::plain_source<A>{from.values}, cx.ranks * size.sent, size.kept,
                        ext::selected_entries<A>{picked.indices, picked.values}, cx.ws);
    auto const to = detail::pair_pieces<In>(local.region_sums.data(), size.kept);
    auto const share = most / static_cast<A>(cx.ranks);
    cx.exec.for_each_index(size.kept, detail::keep_sums<In>{from, picked.indices, share, to});
    cx.exec.for_each_index(1, detail::mean_begin<In>{in, cx.ranks, to.words(0)});
  }

  /// Sets x to the k largest of the entries that the owners sent, and sets all other elements to zero.
  template <class In, class E>
  void receive(context<In, E> const& cx, detail::regions const& over, detail::pair_pieces<In const> const& in,
               values_on<E, In> x) const {
    using A = accum<In>;
    auto const size = sizes(cx.dims, cx.ranks);
    auto const received = cx.ranks * size.kept;
    auto const all = take_pairs<A>(received, cx.ws), picked = take_pairs<A>(size.k, cx.ws);
    cx.exec.for_each_index(received, detail::collect_pairs<In>{over, in, all});
    ext::select_largest(cx.exec, ext::plain_source<A>{all.values}, received, size.k,
                        ext::selected_entries<A>{picked.indices, picked.values}, cx.ws);
    cx.exec.fill(x.data, std::byte{}, value_bytes<In>(size.n));
    cx.exec.for_each_index(size.k, detail::place_pairs<In>{picked.values, picked.indices, all.indices, x.data});
  }
};

static_assert(collective<ok_top_k, float, archetype> && codec<ok_top_k, float, archetype> &&
              detail::rate_adjustable<ok_top_k> && promises_of<ok_top_k>.contractive);

}}  // namespace pith::PITH_ABI
