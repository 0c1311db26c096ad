// pith/codec/chain.hpp — chains of stages; in a | b, stage b encodes the values that stage a emits.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/codec/detail/chain_promises.hpp>
#include <pith/codec/detail/chain_types.hpp>
#include <pith/codec/detail/chain_walk.hpp>
#include <pith/codec/detail/entries.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/source.hpp>

#include <concepts>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// A chain of stages: each stage encodes the values that the previous stage emits. Chains are flat: (a | b) | c and a |
/// (b | c) have the same type and emit the same payloads.
///
///   emits       the values of the last stage; the side information of all stages in order, that of each stage aligned
///               to 8 bytes. If summed_terngrad or summed_sign follows summable stages, the chain uses the summing
///               rounds of this last stage
///   properties  omega = prod (1 + omega_i) - 1 if all stages are unbiased, and all but the last are isometric or
///               rotations. delta = prod delta_i if all stages but the last are isometric projections or rotations; the
///               last factor is the last stage's delta, or 1 - omega if it has no delta (Basu et al. 2019)
template <class... S>
class chain : public codec_base {
  static_assert(sizeof...(S) <= detail::max_stages, "pith: a chain has at most 32 stages");

 public:
  using facets = ext::computed;

  template <class In>
  using output = typename detail::chained<In, S...>::type;

  static constexpr codec_traits traits = {
      .projection = (traits_of<S>.projection && ...) && detail::heads_isometric<S...>,
      .isometric = (traits_of<S>.isometric && ...),
      .rotation = (traits_of<S>.rotation && ...),
      .affine = (traits_of<S>.affine || ...),
      .reproducible = (reproducible<S> && ...),
      .votes = (traits_of<S>.votes || ...),
      .sums = detail::chain_sum_form<S...>(),
      .rates = detail::chain_rate_form<S...>()};

  explicit constexpr chain(std::tuple<S...> stages) : stages_(std::move(stages)) {}

  constexpr std::tuple<S...> const& stages() const { return stages_; }

  std::string name() const {
    auto text = std::string();
    each([&](auto const& s) { text.append(text.empty() ? "" : "|").append(s.name()); });
    return text;
  }

  constexpr shape output_shape(shape dims) const {
    each([&](auto const& s) { dims = s.output_shape(dims); });
    return dims;
  }

  /// Parts of a tensor begin at multiples of this number of elements.
  std::uint64_t granule() const requires requires(detail::stage_at<0, S...> const& s) { s.granule(); }
  { return get<0>().granule(); }
  template <class In>
  constexpr std::size_t side_bytes(shape const& dims) const {
    return detail::side_bytes_of<In>(tail(), dims);
  }
  template <class In, executor E>
  constexpr std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return detail::scratch_bytes_of<In>(tail(), exec, dims, scratch_bytes_of_last<In>(exec, dims));
  }
  /// The byte offset of the chain's count in the side information. The last variable-rate stage writes this count.
  template <class In>
    requires(traits_of<S>.is_variable() || ...)
  constexpr std::size_t count_offset(shape const& dims) const { return detail::count_offset_of<0, In>(tail(), dims); }

  /// Returns a chain in which the only rate-adjustable stage has this rate.
  chain at(double rate) const requires((detail::rate_adjustable<S> + ...) == 1) {
    return std::apply([rate](auto const&... s) { return chain(std::tuple<S...>(detail::at(s, rate)...)); }, stages_);
  }

  double omega(shape dims) const requires(promises_of<S>.unbiased&&...) && detail::heads_keep_errors<S...> {
    double grown = 1;
    each([&](auto const& s) {
      grown *= 1 + s.omega(dims);
      dims = s.output_shape(dims);
    });
    return grown - 1;
  }

  double delta(shape dims) const
      requires(detail::heads_project<S...> &&
               (promises_of<detail::last_of<S...>>.contractive || promises_of<detail::last_of<S...>>.unbiased)) {
    double kept = 1;
    each([&](auto const& s) {
      if constexpr (promises_of<decltype(s)>.contractive) {
        kept = detail::joined_delta(kept, s.delta(dims));
      } else {
        kept = detail::joined_delta(kept, 1 - s.omega(dims));
      }
      dims = s.output_shape(dims);
    });
    return kept;
  }

  template <class In, executor E>
    requires(detail::states_of<In, E, S...>::any_replicated)
  auto make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return
          typename detail::states_of<In, E, S...>::replicated{{make_part<In, I>(exec, at<I>(id), before<I>(dims))...}};
    }
    (std::index_sequence_for<S...>());
  }
  template <class In, executor E>
    requires(detail::states_of<In, E, S...>::any_local)
  auto make_local(E const& exec, shape const& dims) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return typename detail::states_of<In, E, S...>::local{
          {pith::make_local<input<In, I>>(exec, get<I>(), before<I>(dims))...}};
    }
    (std::index_sequence_for<S...>());
  }

  template <class In, executor E>
    requires detail::fits<In, E, S...>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, output<In>> y, auto const& replicated,
              auto& local) const {
    if constexpr (detail::fuses_tiles<In, E, S...>) {
      if (can_encode_from<E>(cx.dims)) return encode_from(cx, ext::plain_source<In>{x.data}, y);
    }
    detail::encode_stages(tail(), cx, x, y, replicated, local);
  }
  template <class In, executor E>
    requires detail::fits<In, E, S...>
  void decode(context<In, E> const& cx, encoded_on<E, output<In> const> y, values_on<E, In> x,
              auto const& replicated) const {
    if constexpr (detail::fuses_tiles<In, E, S...>) {
      auto const to = get<0>().template restored<In>(cx.id, cx.dims, ext::tensor_sink<In>{x.data, 1});
      if (can_encode_from<E>(cx.dims)) return get<1>().decode_to(at<1>(cx), y, to);
    }
    detail::decode_stages(tail(), cx, y, x, replicated);
  }

  /// Sets x to factor times the sum of the ranks' decoded outputs. The last stage sums the outputs, and the other
  /// stages decode the sum.
  template <real In, executor E>
    requires(detail::heads_decode_sums<S...> && !detail::states_of<In, E, S...>::any_replicated &&
             detail::adds_ranks<detail::last_of<S...>, typename detail::input_at<sizeof...(S) - 1, In, S...>::type, E>)
  void decode_ranks(context<In, E> const& cx, gathered_on<E, output<In>> in, accum<In> factor,
                    values_on<E, In> x) const {
    if constexpr (detail::fuses_tiles<In, E, S...>) {
      auto const to = get<0>().template restored<In>(cx.id, cx.dims, ext::tensor_sink<In>{x.data, 1}, factor);
      if (can_encode_from<E>(cx.dims)) return get<1>().decode_ranks_to(at<1>(cx), in, to);
    }
    auto const add_up = [&](auto const& end, auto const& own, auto y, auto values) {
      end.first().decode_ranks(own, gathered_on<E, output<In>>{y, in.stride, in.ranks}, factor, values);
    };
    detail::decode_stages(tail(), cx, encoded_on<E, output<In> const>(in), x, no_state(), add_up);
  }

  /// The maximum number of entries that the first stage emits. The later stages encode the values of these entries.
  std::uint64_t max_entries(shape const& dims) const requires detail::counts_entries<detail::stage_at<0, S...>> {
    return get<0>().max_entries(dims);
  }
  template <class In, executor E>
    requires(detail::lists_entries<detail::stage_at<0, S...>, In, E> && !detail::states_of<In, E, S...>::any_replicated)
  void decode_entries(context<In, E> const& cx, encoded_on<E, output<In> const> y,
                      ext::selected_entries<In> const& to) const {
    detail::decode_entries_of(tail(), cx, y, to, no_state());
  }

  /// If the chain uses the rounds of its last stage, the number of these rounds; otherwise 1. In the first case, the
  /// other stages are summable, and encode again in each round.
  unsigned rounds(shape const& dims, unsigned ranks) const {
    if constexpr (detail::ends_in_rounds<S...>) {
      return get<last>().rounds(before<last>(dims), ranks);
    } else {
      return 1;
    }
  }
  template <class In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const requires detail::ends_in_rounds<S...> {
    return detail::transfer_of<input<In, last>>(get<last>(), r, before<last>(dims), ranks);
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims,
                                     unsigned ranks) const requires detail::ends_in_rounds<S...> {
    auto const of_last = detail::exchange_scratch_bytes<input<In, last>>(get<last>(), exec, before<last>(dims), ranks);
    return detail::scratch_bytes_of<In>(tail(), exec, dims, of_last);
  }
  template <real In, executor E>
    requires detail::ends_in_rounds<S...> && detail::fits<In, E, S...>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               auto const& replicated, auto& local) const {
    auto const produce_last = [&](auto const& end, auto const& own, auto values, auto) {
      end.first().produce(own, round, values, out, end.state_in(replicated), end.state_in(local));
    };
    detail::encode_stages(tail(), cx, x, encoded_on<E, output<In>>(), replicated, local, produce_last);
  }
  template <real In, executor E>
    requires detail::ends_in_rounds<S...> && detail::fits<In, E, S...>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x, auto& replicated,
              auto& local) const {
    auto const absorb_last = [&](auto const& end, auto const& own, auto, auto values) {
      end.first().absorb(own, round, in, values, end.state_in(replicated), end.state_in(local));
    };
    auto const none = encoded_on<E, output<In> const>();
    if (round + 1 < rounds(cx.dims, cx.ranks))
      return absorb_last(tail<last>(), at<last>(cx), none, values_on<E, input<In, last>>());
    detail::decode_stages(tail(), cx, none, x, replicated, absorb_last);
  }
  template <real In, executor E>
    requires detail::ends_in_rounds<S...> && detail::fits<In, E, S...>
  void contribution(context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
                    auto const& replicated) const {
    auto const sent_by_last = [&](auto const& end, auto const& own, auto, auto values) {
      end.first().contribution(own, produced, values, end.state_in(replicated));
    };
    detail::decode_stages(tail(), cx, encoded_on<E, output<In> const>(), sent, replicated, sent_by_last);
  }

  /// Encodes from a source. The transform and the quantizer run in one pass.
  template <class In, executor E, class Source>
    requires detail::fuses_tiles<In, E, S...>
  void encode_from(context<In, E> const& cx, Source const& from, encoded_on<E, output<In>> y) const {
    auto const through = get<0>().template transformed<In>(cx.id, cx.dims, from);
    get<1>().encode_from(at<1>(cx), through, y);
  }
  static constexpr bool encodes_every_shape = !detail::transforms_tiles<detail::stage_at<0, S...>>;
  template <executor E>
  bool can_encode_from([[maybe_unused]] shape const& dims) const {
    if constexpr (encodes_every_shape) {
      return true;
    } else {
      return get<1>().holds_tiles(before<1>(dims).n, E::items_per_block, get<0>().tile());
    }
  }

  /// Encodes from a source. The first stage, a sparsifier, selects entries. The later stages encode the values of these
  /// entries.
  template <class In, executor E, class Source>
    requires detail::fuses_picks<In, E, Source, S...>
  void encode_from(context<In, E> const& cx, Source const& from, encoded_on<E, output<In>> y) const {
    auto none = no_state();
    detail::encode_selected(tail(), cx, from, y, none, none);
  }
  template <class In, executor E, class Source>
    requires(detail::fuses_picks<In, E, Source, S...>)
  std::size_t scratch_bytes_from(E const& exec, shape const& dims)
  const {
    auto const of_last = scratch_bytes_of_last<In>(exec, dims);
    return detail::scratch_bytes_of_selected<In, Source>(tail(), exec, dims, of_last);
  }

 private:
  template <class In, std::size_t I>
  using input = typename detail::input_at<I, In, S...>::type;

  static constexpr std::size_t last = sizeof...(S) - 1;

  template <std::size_t I>
  constexpr auto const& get() const {
    return std::get<I>(stages_);
  }
  template <std::size_t I = 0>
  constexpr detail::chain_tail<I, S...> tail() const {
    return {stages_};
  }
  template <class In, class E>
  constexpr std::size_t scratch_bytes_of_last(E const& exec, shape const& dims) const {
    return detail::scratch_bytes<input<In, last>>(get<last>(), exec, before<last>(dims));
  }
  template <std::size_t I>
  static constexpr encoding_id at(encoding_id id) {
    id.stage = static_cast<std::uint8_t>(id.stage + I);
    return id;
  }
  /// The context of stage I.
  template <std::size_t I, class In, class E>
  constexpr context<input<In, I>, E> at(context<In, E> const& cx) const {
    return {cx.exec, at<I>(cx.id), before<I>(cx.dims), cx.ws, cx.ranks};
  }
  template <std::size_t I>
  constexpr shape before(shape const& dims) const {
    if constexpr (I == 0) {
      return dims;
    } else {
      return get<I - 1>().output_shape(before<I - 1>(dims));
    }
  }
  /// The replicated state of stage I. A state that only rounds use (keeps_for_exchange) is empty, except the state of
  /// the last stage if the chain uses the rounds of that stage.
  template <class In, std::size_t I, class E>
  auto make_part(E const& exec, encoding_id const& id, shape const& dims) const {
    if constexpr (I == last && detail::ends_in_rounds<S...>) {
      return pith::make_replicated<input<In, I>>(exec, get<I>(), id, dims);
    } else {
      return detail::make_replicated_in_chain<input<In, I>>(exec, get<I>(), id, dims);
    }
  }
  template <class F>
  constexpr void each(F&& f) const {
    std::apply([&f](auto const&... s) { (f(s), ...); }, stages_);
  }

  std::tuple<S...> stages_;
};

namespace detail {

template <class S>
constexpr auto stages_of(S s) {
  return std::tuple<S>(std::move(s));
}
template <class... S>
constexpr auto stages_of(chain<S...> const& c) {
  return c.stages();
}

}  // namespace detail

/// `a | b`: b encodes the values that a emits.
template <class A, class B>
  requires std::derived_from<A, codec_base> || std::derived_from<B, codec_base>
constexpr auto operator|(A a, B b) {
  if constexpr (detail::composable<A, B>) {
    explain_facets<A>();
    explain_facets<B, output_of<A, float>>();
    return chain(std::tuple_cat(detail::stages_of(std::move(a)), detail::stages_of(std::move(b))));
  } else if constexpr (!stage<A, float, archetype>) {
    explain_stage<A>();
  } else if constexpr (!std::derived_from<B, codec_base> || traits_of<B>.terminal) {
    explain_stage<B>();
  } else {
    static_assert(
        detail::composable<A, B>,
        "pith: these stages do not fit: the right one cannot take the values that the left one emits (sparsifiers "
        "and transforms go before quantizers), or is no stage: call pith::explain_stage<B>()");
  }
}

}}  // namespace pith::PITH_ABI
