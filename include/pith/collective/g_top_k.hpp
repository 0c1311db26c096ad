// pith/collective/g_top_k.hpp — a global top-k all-reduce: pairs of ranks merge their entries and keep the k largest.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/collective/detail/pair_sums.hpp>
#include <pith/collective/detail/pairs.hpp>
#include <pith/collective/detail/sparse_exchange.hpp>
#include <pith/sparsify/select.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The schedule of merges. Let `inner` be the largest power of two that is at most `ranks`. For d = 1, 2, 4, ... <
/// inner, each rank r < inner swaps entries with rank r xor d, in one round per d. If `inner` < `ranks`, two rounds are
/// added. In an added first round, each rank r >= inner sends its entries to rank r - inner, which is called folding.
/// In an added last round, the ranks that folded receive the result.
struct merge_rounds {
  unsigned ranks, inner;
  bool folds;

  explicit merge_rounds(unsigned n) : ranks(n), inner(std::bit_floor(n)), folds(inner < n) {}

  unsigned count() const {
    auto const swaps = static_cast<unsigned>(std::bit_width(inner)) - 1;
    return std::max(1u, swaps + (folds ? 2 : 0));
  }
  /// `is_fold` returns whether the ranks r >= inner fold in this round. `returns_result` returns whether these ranks
  /// receive the result in this round.
  bool is_fold(unsigned round) const { return folds && round == 0; }
  bool returns_result(unsigned round) const { return folds && round + 1 == count(); }
  std::uint32_t distance(unsigned round) const {
    return is_fold(round) || returns_result(round) ? inner : 1u << (folds ? round - 1 : round);
  }
  /// The sums are halved in each round before the result is returned, so that none overflows. After the last of these
  /// rounds, they are divided by `divisor()`, which is at least `ranks`.
  unsigned divisor() const { return folds ? 2 * inner : inner; }
  /// Whether another rank sends its entries to `rank` when folding.
  bool is_folded_into(unsigned rank) const { return rank + inner < ranks; }
  /// Whether `rank` merges received entries with its own entries in this round.
  bool merges(unsigned round, unsigned rank) const {
    return rank < inner && !returns_result(round) && (rank ^ distance(round)) < ranks;
  }
};

/// Halves the values of a rank that receives no entries when others fold.
template <class In>
struct halve_values {
  In* values;
  PITH_HD void operator()(std::uint64_t j) const {
    values[j] = element_cast<In>(accum<In>(0.5) * element_cast<accum<In>>(values[j]));
  }
};

/// Stores the k entries that a merge selected, and marks their elements in `sums`.
template <class In>
struct hold_pairs {
  pairs<accum<In>> from;
  std::uint32_t const* picked;
  pairs<In> to;
  accum<In>* sums;
  PITH_HD void operator()(std::uint64_t j) const {
    auto const i = from.indices[picked[j]];
    to.values[j] = element_cast<In>(from.values[picked[j]]);
    to.indices[j] = i;
    if (i != no_index) sums[i] = 1;  // a mark; no later code reads the sum
  }
};

/// Replaces the index of an entry that a merge did not keep by `no_index`.
template <class A>
struct drop_unkept {
  A const* marks;
  std::uint32_t* indices;
  PITH_HD void operator()(std::uint64_t j) const {
    auto const i = indices[j];
    if (i != no_index && marks[i] == 0) indices[j] = no_index;
  }
};

/// Sets the elements of x that are in the result to `share` times their values. Skips an index that is out of range,
/// since received indices may be damaged.
template <class In>
struct place_share {
  pairs<In const> from;
  std::uint32_t n;
  accum<In> share;
  In* x;
  PITH_HD void operator()(std::uint64_t j) const {
    auto const i = from.indices[j];
    if (i < n) x[i] = saturated_cast<In>(bounded_product(share, element_cast<accum<In>>(from.values[j])));
  }
};

/// Copies received indices. An index out of range becomes `no_index`.
struct copy_indices {
  std::uint32_t const* from;
  std::uint32_t n;
  std::uint32_t* to;
  PITH_HD void operator()(std::uint64_t j) const { to[j] = from[j] < n ? from[j] : no_index; }
};

}  // namespace detail

/// Exchanges the k entries of largest magnitude of each rank, where k = max(1, floor(density n)). Let P be the largest
/// power of two that is at most N. In log2(P) rounds, pairs of ranks sum their entries and keep the k largest sums.
/// After these rounds, the ranks below P have the same k sums. The result is these sums, divided by N. If N > P, each
/// rank numbered P or above first sends its entries to a rank below P, and receives the result in a last round.
///
///   requires    0 < density <= 1 (std::invalid_argument), n < 2^32 and k < 2^31; a communicator with send_recv
///   state       k pairs and 2 k indices between the rounds; not saved
///   complexity  log2(P) swaps of k values and k indices, and two further swaps if N > P; no host wait. Selects k of n
///               entries once, and k of 2 k entries per merge. Needs scratch of n elements of accum<In>, but accesses
///               only the elements of received entries
///   on NaN      NaN counts as larger than infinity, and infinity as larger than all other values
///   errors      a merge may drop an entry whose sum over all ranks is among the k largest; for two ranks the result is
///               exact. For half and bfloat16, each merge halves values and rounds them to In, so halves below 2^-14
///               lose digits; inside error_feedback, values are floats
///   properties  outside an exchange, g_top_k behaves as the codec top_k. In error_feedback, the residual omits each
///               selected entry that every merge kept. So N x mean + sum of residuals = sum of compensated gradients
///   reference   Shi, Wang, Zhao, Tang, Wang, Huang and Chu, A Distributed Synchronous SGD Algorithm with Global Top-k
///               Sparsification for Low Bandwidth Networks, ICDCS 2019. The paper merges in a tree and broadcasts the
///               result; in g_top_k, all ranks merge
class g_top_k : public detail::sparse_exchange {
 public:
  using facets = ext::facets<ext::contractive, ext::rate, ext::rounds, ext::delivered>;

  explicit g_top_k(double density) : sparse_exchange("g_top_k", density) {}

  g_top_k at(double density) const { return g_top_k(density); }
  bool states_follow_rate() const { return true; }

  /// The state that all rounds of a step use, and that a saved state omits. `held` has this rank's current k entries.
  /// The first k indices in `sent` are those of this rank's own entries. The last k indices are those of the entries of
  /// the rank that folded into this rank. The index of an entry that a merge did not keep is `no_index`.
  template <executor E>
  struct between {
    buffer<std::byte, E> held;
    buffer<std::uint32_t, E> sent;
    void fields(field_visitor&) {}
  };

  template <real In, executor E>
  between<E> make_local(E const& exec, shape const& dims) const {
    auto const k = kept(dims.n);
    detail::require(k < 1u << 31, "g_top_k: entries must be below 2^31, got ", k, ": split the tensor");
    return {buffer<std::byte, E>(exec, detail::pairs_bytes<In>(k)), buffer<std::uint32_t, E>(exec, 2 * k)};
  }

  unsigned rounds(shape const&, unsigned ranks) const { return detail::merge_rounds(ranks).count(); }
  template <real In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const {
    auto const plan = detail::merge_rounds(ranks);
    auto const k = kept(dims.n);
    auto const bytes = detail::pairs_bytes<In>(k, plan.returns_result(r) ? k : 0);
    return {transport::pairwise, element_kind::bytes, bytes, plan.distance(r)};
  }
  template <real In, executor E>
  std::size_t exchange_scratch_bytes(E const&, shape const& dims, unsigned) const {
    using A = accum<In>;
    auto const k = kept(dims.n);
    auto const merging = scratch_for<A>(dims.n) + pairs_scratch_bytes<A>(2 * k) + pairs_scratch_bytes<A>(k) +
                         selection_scratch_bytes<A>(2 * k, k);
    return std::max(merging, selection_scratch_bytes<In>(dims.n, k));
  }

  template <real In, executor E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               no_state const&, between<E>& local) const {
    auto const k = kept(cx.dims.n);
    auto const held = pairs_of<In>(local, k);
    if (round == 0) {
      ext::select_largest(cx.exec, ext::plain_source<In>{x.data}, cx.dims.n, k,
                          ext::selected_entries<In>{held.indices, held.values}, cx.ws);
      cx.exec.copy(local.sent.data(), held.indices, k * sizeof(std::uint32_t));
    }
    cx.exec.fill(out.data(), std::byte{}, out.size());
    cx.exec.copy(out.data(), local.held.data(), local.held.size());
    if (!detail::merge_rounds(cx.ranks).returns_result(round)) return;
    auto* const words = detail::pair_pieces<In>(out.data(), k).words(0);
    cx.exec.copy(words, local.sent.data() + k, k * sizeof(std::uint32_t));
  }

  template <real In, executor E>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x, no_state&,
              between<E>& local) const {
    auto const plan = detail::merge_rounds(cx.ranks);
    auto const k = kept(cx.dims.n);
    auto const pieces = detail::pair_pieces<In const>(in.bytes.data(), k);
    auto const received = detail::pairs<In const>{pieces.values(0), pieces.indices(0)};
    auto const held = pairs_of<In>(local, k);
    if (plan.merges(round, cx.id.rank)) {
      merge(cx, plan, round, cx.id.rank, received, local);
    } else if (plan.is_fold(round)) {
      cx.exec.for_each_index(k, detail::halve_values<In>{held.values});
    }
    if (round + 1 < plan.count()) return;
    auto const is_folded = cx.id.rank >= plan.inner;
    auto const result = is_folded ? received : detail::pairs<In const>{held.values, held.indices};
    auto const n = static_cast<std::uint32_t>(cx.dims.n);
    if (is_folded) cx.exec.for_each_index(k, detail::copy_indices{pieces.words(0), n, local.sent.data()});
    cx.exec.fill(x.data, std::byte{}, value_bytes<In>(cx.dims.n));
    auto const share = static_cast<accum<In>>(plan.divisor()) / static_cast<accum<In>>(cx.ranks);
    cx.exec.for_each_index(k, detail::place_share<In>{result, n, share, x.data});
  }

  /// Sets `sent` to the entries of p that this rank sent and that every merge kept.
  template <real In, executor E>
  void delivered(context<In, E> const& cx, values_on<E, In const> p, values_on<E, In const> mean, values_on<E, In> sent,
                 no_state const&, between<E> const& local) const {
    cx.exec.fill(sent.data, std::byte{}, value_bytes<In>(cx.dims.n));
    cx.exec.for_each_index(kept(cx.dims.n), detail::place_arrived<In>{local.sent.data(), p.data, mean.data, sent.data});
  }

 private:
  template <class In, class E>
  static detail::pairs<In> pairs_of(between<E> const& local, std::uint64_t k) {
    auto const pieces = detail::pair_pieces<In>(local.held.data(), k);
    return {pieces.values(0), pieces.indices(0)};
  }

  /// Adds halves of the entries of this rank and of its partner, and keeps the k largest sums. Both ranks add the entries of the
  /// lower rank first, so their results are bitwise equal.
  template <class In, class E>
  void merge(context<In, E> const& cx, detail::merge_rounds const& plan, unsigned round, unsigned rank,
             detail::pairs<In const> const& received, between<E>& local) const {
    using A = accum<In>;
    auto const k = kept(cx.dims.n);
    auto const held = pairs_of<In>(local, k);
    auto const own = detail::pairs<In const>{held.values, held.indices};
    auto const is_lower = (rank & plan.distance(round)) == 0;
    auto const lists = [&](unsigned l) { return (l == 0) == is_lower ? own : received; };
    auto const over = detail::regions{nullptr, static_cast<std::uint32_t>(cx.dims.n), 1};
    auto* const sums = cx.ws.template take<A>(cx.dims.n).data;
    auto const all = take_pairs<A>(2 * k, cx.ws), picked = take_pairs<A>(k, cx.ws);
    if (plan.is_fold(round))
      cx.exec.for_each_index(k, detail::copy_indices{received.indices, over.n, local.sent.data() + k});
    detail::add_up_pairs<In>(cx.exec, over, 0, 2, k, lists, A(0.5), sums, all);
    ext::select_largest(cx.exec, ext::plain_source<A>{all.values}, 2 * k, k,
                        ext::selected_entries<A>{picked.indices, picked.values}, cx.ws);
    cx.exec.for_each_index(k, detail::hold_pairs<In>{all, picked.indices, held, sums});
    cx.exec.for_each_index(plan.is_folded_into(rank) ? 2 * k : k, detail::drop_unkept<A>{sums, local.sent.data()});
  }
};

static_assert(collective<g_top_k, float, archetype> && codec<g_top_k, float, archetype> &&
              detail::rate_adjustable<g_top_k> && promises_of<g_top_k>.contractive);

}}  // namespace pith::PITH_ABI
