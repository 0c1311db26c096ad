// pith/collective/hierarchical.hpp — a two-level exchange, within nodes and between nodes.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/codec/capability.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/collective/detail/codec_exchange.hpp>
#include <pith/collective/tensor_parts.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The division of ranks into nodes of consecutive ranks. The local rank (`place`) of a rank is its index in its node.
/// The ranks with equal local ranks also form a subgroup.
struct node_grid {
  unsigned nodes, places;

  constexpr subgroup within_node() const { return {places, 1}; }
  /// Converts a subgroup of nodes to a subgroup with one rank from each of these nodes. These ranks have equal local
  /// ranks.
  constexpr subgroup across_nodes(subgroup const& of_nodes) const {
    return {of_nodes.ranks(nodes), of_nodes.stride * places};
  }
  constexpr unsigned node(unsigned rank) const { return rank / places; }
  constexpr std::uint16_t place(unsigned rank) const { return static_cast<std::uint16_t>(rank % places); }
};

/// The values of one part of the tensor. All transfers of a step use these values, and a saved state omits them.
template <class In, class E>
struct part_values {
  buffer<In, E> values;
  void fields(field_visitor&) {}
};

/// The rank-local state of the codec between nodes, for the part that this rank sums.
template <class State>
struct place_state {
  State state;
  unsigned places;
  void fields(field_visitor& f) { f.of_place(state, places); }
};

}  // namespace detail

/// Exchanges a tensor on two levels, for clusters in which links within a node are faster than links between nodes.
/// First, `Inner` encodes the parts of each gradient, and each rank sums one part over the ranks of its node. Then
/// `Outer` encodes each summed part, and the ranks that summed the same part in different nodes exchange it. Finally,
/// `Inner` encodes the parts again, and the ranks of a node all-gather all parts. So each node exchanges only one
/// tensor with the other nodes.
///
///   requires    an Inner without state and an Outer without replicated state (std::invalid_argument). The number of
///               ranks is a multiple of ranks_per_node, and the ranks of a node are consecutive. A communicator with
///               all_to_all and split, or a sub_communicators. Parts begin at multiples of 8 elements. Inner
///               and Outer encode a part as a separate vector. Short last parts are padded with zeros
///   state       the state of Outer for one part, and the values of one part
///   complexity  Inner encodes n + n / ranks_per_node elements and decodes 2 n, with two transfers within the node.
///               Outer processes n / ranks_per_node elements
///   errors      two compression errors of Inner and one of Outer. If Outer is an error_feedback, Outer adds its error
///               in one step to its input in the next step. With a single node, Outer is not used. With one rank per
///               node, Inner is replaced by identity
///   properties  outside an exchange, hierarchical behaves as the codec Inner. The residual of
///               error_feedback(hierarchical) is the rank's own compression error of Inner
///   reference   sums within nodes and then between nodes: Cho, Finkler, Kung and Hunter, BlueConnect, MLSys 2019.
///               Quantization on both levels: Wang et al., ZeRO++, 2023
template <class Inner, class Outer>
class hierarchical : public detail::codec_exchange<Inner> {
  using base = detail::codec_exchange<Inner>;
  using base::codec_part, base::wrapped;

 public:
  static constexpr codec_traits traits = {.reproducible = reproducible<Inner> && reproducible<Outer>,
                                          .votes = traits_of<Inner>.votes || traits_of<Outer>.votes};

  hierarchical(Inner inner, Outer outer, unsigned ranks_per_node)
      : base("hierarchical", std::move(inner)), outer_(std::move(outer)), places_(ranks_per_node) {
    explain_facets<Outer>();
    detail::require_inner(outer_);
    detail::require(places_ > 0, "hierarchical: ranks_per_node must be at least 1, got 0");
  }

  std::string name() const {
    return detail::text("hierarchical(", wrapped().name(), ",", outer_.name(), ",", places_, ")");
  }

  capabilities capabilities_for(shape const& dims) const requires(detail::erased<Inner> || detail::erased<Outer>) {
    auto of = base::exchanged(wrapped(), dims);
    auto const outer = capabilities_of(outer_, vector(dims.n));
    of.reproducible = of.reproducible && outer.reproducible;
    of.votes = of.votes || outer.votes;
    return of;
  }

  /// With a single node, Outer is not used. Its residual is not zero if reshard() has removed the other nodes.
  void visit_feedback(detail::feedback_scope const& at, auto& replicated, auto& local, auto& places) const {
    if (at.ranks == 0) return;
    auto const over = grid(at.ranks);
    auto part = at.part(over.place(at.rank), places_, largest_part(shape{at.n}).n);
    part.rank = over.node(at.rank), part.ranks = over.nodes;
    auto const before = places.size();
    outer_.visit_feedback(part, outer_replicated(replicated), outer_local(local), places);
    auto const is_used = over.nodes > 1 && !outer_.is_lossless(largest_part(shape{at.n}));
    for (auto i = before; i < places.size(); ++i) places[i].is_used = places[i].is_used && is_used;
  }
  template <executor E>
  void rescale(E const& exec, double factor, auto& replicated, auto& local) const {
    outer_.rescale(exec, factor, outer_replicated(replicated), outer_local(local));
  }

  template <class In, executor E>
  auto make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    auto made = base::template replicated_with<In>(exec, id, dims,
                                                   pith::make_replicated<In>(exec, outer_, id, largest_part(dims)));
    detail::require(detail::state_bytes(outer_replicated(made)) == 0,
                    "hierarchical: the outer codec must have no replicated state, got ", outer_.name());
    detail::require(outer_.shards(largest_part(dims)) == nullptr,
                    "hierarchical: the outer codec must return the whole mean, got ", outer_.name());
    return made;
  }
  template <class In, executor E>
  auto make_local(E const& exec, shape const& dims) const {
    auto const part = largest_part(dims);
    using outer = detail::place_state<local_of<Outer, In, E>>;
    return base::template local_with<In>(exec, dims, outer{pith::make_local<In>(exec, outer_, part), places_},
                                         detail::part_values<In, E>{{exec, part.n}});
  }

  unsigned rounds(shape const& dims, unsigned ranks) const {
    auto const nodes = grid(ranks).nodes;
    return 2 + (nodes == 1 ? 0 : outer_.rounds(largest_part(dims), nodes));
  }
  /// The last round that reads the gradient. After this round, contribution() can decode the payloads that this rank
  /// encoded.
  unsigned contributing_round(unsigned) const { return 0; }
  template <class In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const {
    auto const over = grid(ranks);
    auto const bytes = with_inner([&](auto const& c) { return detail::part_bytes<In>(c, parts(dims)); });
    if (r == 0) return {transport::all_to_all, element_kind::bytes, bytes, 0, over.within_node()};
    if (is_last(r, dims, ranks)) return {transport::all_gather, element_kind::bytes, bytes, 0, over.within_node()};
    auto moves = detail::transfer_of<In>(outer_, r - 1, largest_part(dims), over.nodes);
    moves.among = over.across_nodes(moves.among);
    return moves;
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned ranks) const {
    auto const outer = detail::exchange_scratch_bytes<In>(outer_, exec, largest_part(dims), grid(ranks).nodes);
    auto const mean = [&](auto const& c) { return detail::part_mean_scratch_bytes<In>(c, exec, parts(dims), places_); };
    return std::max(with_inner(mean), outer);
  }

  template <real In, executor E>
    requires codec<Inner, In, E> && detail::exchangeable<Outer, In, E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               auto const& replicated, auto& local) const {
    auto const over = grid(cx.ranks);
    if (round == 0) {
      auto const encode = [&](auto const& c, auto const& keeps, auto& own) {
        detail::encode_parts<In>(c, reduce_scatter_context(cx, over), parts(cx.dims), x, out, keeps, own);
      };
      with_inner(encode, replicated, local);
    } else if (is_last(round, cx.dims, cx.ranks)) {
      auto const encode = [&](auto const& c, auto const& keeps, auto& own) {
        detail::encode_mean_part<In>(c, all_gather_context(cx, over), parts(cx.dims), part<In, E>(local), out, keeps,
                                     own);
      };
      with_inner(encode, replicated, local);
    } else {
      detail::produce<In>(outer_, inter_node_context(cx, over), round - 1, values_on<E, In const>(part<In, E>(local)),
                          out, outer_replicated(replicated), outer_local(local));
    }
  }
  template <real In, executor E>
    requires codec<Inner, In, E> && detail::exchangeable<Outer, In, E>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x, auto& replicated,
              auto& local) const {
    auto const over = grid(cx.ranks);
    if (round == 0) {
      add_up(reduce_scatter_context(cx, over), in, replicated, local);
    } else if (is_last(round, cx.dims, cx.ranks)) {
      auto const decode = [&](auto const& c, auto const& keeps) {
        detail::decode_parts(c, all_gather_context(cx, over), parts(cx.dims), in, x, keeps);
      };
      with_inner(decode, replicated);
    } else {
      detail::absorb(outer_, inter_node_context(cx, over), round - 1, in, part<In, E>(local),
                     outer_replicated(replicated), outer_local(local));
    }
  }
  template <real In, executor E>
    requires codec<Inner, In, E>
  void contribution(context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
                    auto const& replicated) const {
    auto const decode = [&](auto const& c, auto const& keeps) {
      detail::decode_own_parts(c, reduce_scatter_context(cx, grid(cx.ranks)), parts(cx.dims), produced, sent, keeps);
    };
    with_inner(decode, replicated);
  }

 private:
  /// Calls f with the codec that is used within a node, and with the states of that codec.
  template <class F, class... States>
  auto with_inner(F const& f, States&... states) const {
    if (places_ > 1) return f(wrapped(), codec_part(states)...);
    auto none = no_state();
    return f(identity(), (static_cast<void>(states), none)...);
  }

  static auto& outer_replicated(auto& states) { return std::get<1>(states.each); }
  static auto& outer_local(auto& states) { return std::get<1>(states.each).state; }
  template <class In, class E>
  static values_on<E, In> part(auto& local) {
    auto const& values = std::get<2>(local.each).values;
    return {values.data(), values.size()};
  }

  detail::node_grid grid(unsigned ranks) const {
    detail::require(ranks % places_ == 0, "hierarchical: the number of ranks must be a multiple of ranks_per_node, ",
                    places_, ", got ", ranks);
    return {ranks / places_, places_};
  }
  bool is_last(unsigned round, shape const& dims, unsigned ranks) const { return round + 1 == rounds(dims, ranks); }

  tensor_parts parts(shape const& dims) const { return parts_for(dims.n, places_, wrapped()); }
  /// The shape of Outer's input, which is equal on all ranks.
  shape largest_part(shape const& dims) const { return parts(dims).dims(0); }

  /// Returns the context in which a node's ranks encode means. All nodes use the same seed, so the payloads of a part
  /// are equal in all nodes. encoding_id::rank is the rank's place.
  template <class In, class E>
  static context<In, E> all_gather_context(context<In, E> const& cx, detail::node_grid const& over) {
    auto id = cx.id;
    id.rank = over.place(id.rank);
    return cx.with(id, cx.dims, over.places);
  }
  /// Returns the context in which a node's ranks encode gradients. Different nodes use different seeds.
  template <class In, class E>
  static context<In, E> reduce_scatter_context(context<In, E> const& cx, detail::node_grid const& over) {
    auto id = cx.id;
    id.seed += std::uint64_t{over.node(id.rank)} << 32;
    return all_gather_context(cx.with(id), over);
  }
  /// Returns the context for the exchange between nodes. In this context, encoding_id::rank is the number of the node,
  /// and encoding_id::hop starts after the two hops within the node.
  template <class In, class E>
  context<In, E> inter_node_context(context<In, E> const& cx, detail::node_grid const& over) const {
    auto between = detail::id_at(cx.id, parts(cx.dims).first(over.place(cx.id.rank)));
    between.rank = static_cast<std::uint16_t>(over.node(cx.id.rank));
    between.hop += 2;
    return cx.with(between, largest_part(cx.dims), over.nodes);
  }

  /// Computes the mean of this rank's part over its node. A short part is padded with zeros.
  template <class In, class E>
  void add_up(context<In, E> const& cx, received_on<E> in, auto& replicated, auto& local) const {
    auto const over = parts(cx.dims);
    auto const to = part<In, E>(local);
    auto const n = over.dims(cx.id.rank).n;
    auto const decode = [&](auto const& c, auto const& keeps) {
      detail::decode_part_mean<In>(c, cx, over, in, {to.data, n}, keeps);
    };
    with_inner(decode, replicated);
    cx.exec.fill(to.data + n, std::byte{}, value_bytes<In>(to.capacity - n));
  }

  Outer outer_;
  unsigned places_;
};

}}  // namespace pith::PITH_ABI
