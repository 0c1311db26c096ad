// pith/codec/chain.hpp — chains of stages; in a | b, stage b encodes the values that stage a emits.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/codec/detail/chain_fusion.hpp>
#include <pith/codec/detail/chain_promises.hpp>
#include <pith/codec/detail/chain_rounds.hpp>
#include <pith/codec/detail/chain_types.hpp>
#include <pith/codec/detail/chain_walk.hpp>
#include <pith/codec/detail/entries.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/stage.hpp>
#include <pith/ext/source.hpp>

#include <concepts>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

namespace pith::inline v0 {

namespace detail {

/// Returns the stage at another rate, or the same stage if it has no rate.
template <class S>
constexpr S at(S const& s, [[maybe_unused]] double rate) {
  if constexpr (rate_adjustable<S>) {
    return s.at(rate);
  } else {
    return s;
  }
}

}  // namespace detail

/// A chain of stages, from left to right. Chains are flat: (a | b) | c and a | (b | c) have the same type and emit the
/// same payloads.
///
///   emits       the values of the last stage; the side information of all stages in order, with each stage's part
///               aligned to 8 bytes. If summed_terngrad or summed_sign follows summable stages, the chain uses the
///               summing rounds of this last stage
///   properties  omega = prod (1 + omega_i) - 1 if all stages but the last are isometric or rotations. delta = prod
///               delta_i if all stages but the last are isometric projections or rotations; the last factor is the last
///               stage's delta or 1 - omega (Basu et al. 2019)
template <class... S>
class chain : public pipeable {
 public:
  template <class In>
  using output = typename detail::chained<In, S...>::type;

  static constexpr bool is_projection = (projection<S> && ...) && detail::heads_isometric<S...>;
  static constexpr bool is_isometric = (isometric<S> && ...);
  static constexpr bool is_reproducible = (reproducible<S> && ...);
  static constexpr bool is_affine = (affine<S> || ...);
  static constexpr bool is_variable_rate = (variable_rate<S> || ...);
  static constexpr rate_form rates = detail::chain_rate_form<S...>();
  static constexpr sum_form sums = detail::chain_sum_form<S...>();

  explicit constexpr chain(std::tuple<S...> stages) : stages_(std::move(stages)) {}

  constexpr std::tuple<S...> const& stages() const { return stages_; }

  std::string name() const {
    auto text = std::string();
    each([&](auto const& s) { text.append(text.empty() ? "" : "|").append(s.name()); });
    return text;
  }

  constexpr shape output_shape(shape dims) const {
    each([&](auto const& s) { dims = detail::output_shape(s, dims); });
    return dims;
  }

  template <class In>
  constexpr std::size_t side_bytes(shape const& dims) const {
    return detail::side_from<0, In>(stages_, dims);
  }
  template <class In, executor E>
  constexpr std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return detail::scratch_from<0, In>(stages_, exec, dims);
  }
  /// The chain's count is the count of its last variable-rate stage.
  template <class In>
    requires(variable_rate<S> || ...)
  constexpr std::size_t count_offset(shape const& dims) const { return detail::count_from<0, In>(stages_, dims); }

  /// Sets the rate of the chain's only rate-adjustable stage. Stages without a rate are unchanged.
  chain at(double rate) const requires((rate_adjustable<S> + ...) == 1) {
    return std::apply([rate](auto const&... s) { return chain(std::tuple<S...>(detail::at(s, rate)...)); }, stages_);
  }

  double omega(shape dims) const requires(unbiased<S>&&...) && detail::heads_keep_errors<S...> {
    double grown = 1;
    each([&](auto const& s) {
      grown *= 1 + s.omega(dims);
      dims = detail::output_shape(s, dims);
    });
    return grown - 1;
  }

  double delta(shape dims) const
    requires(detail::heads_project<S...> && (contractive<detail::last_of<S...>> || unbiased<detail::last_of<S...>>))
  {
    double kept = 1;
    each([&](auto const& s) {
      if constexpr (contractive<decltype(s)>) {
        kept = detail::joined_delta(kept, s.delta(dims));
      } else {
        kept = detail::joined_delta(kept, 1 - s.omega(dims));
      }
      dims = detail::output_shape(s, dims);
    });
    return kept;
  }

  template <class In, executor E>
    requires(detail::states_of<In, E, S...>::any_replicated)
  auto make_replicated(E const& exec, call const& id, shape const& dims) const {
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

  template <class In, executor E, class... Rest>
    requires detail::fits<In, E, S...>
  void encode(E const& exec, call const& id, shape const& dims, values_on<E, In const> x, encoded_on<E, output<In>> y,
              Rest&... rest) const {
    if constexpr (detail::fuses_tiles<In, E, S...>) {
      auto const from = ext::plain_source<In>{x.data};
      if (can_encode_from<E>(dims)) {
        return encode_from<In>(exec, id, dims, from, y, detail::pick<workspace_on<E>>(rest...));
      }
    }
    auto const& replicated = detail::pick<replicated_of<chain, In, E>>(rest...);
    auto& local = detail::pick<local_of<chain, In, E>>(rest...);
    detail::encode_stages<0, In>(stages_, exec, id, dims, x, y, replicated, local,
                                 detail::pick<workspace_on<E>>(rest...));
  }
  template <class In, executor E, class... Rest>
    requires detail::fits<In, E, S...>
  void decode(E const& exec, call const& id, shape const& dims, encoded_on<E, output<In> const> y, values_on<E, In> x,
              Rest&... rest) const {
    if constexpr (detail::fuses_tiles<In, E, S...>) {
      auto const to = get<0>().template restored<In>(id, dims, ext::tensor_sink<In>{x.data, 1});
      if (can_encode_from<E>(dims)) return get<1>().template decode_to<In>(exec, before<1>(dims), y, to);
    }
    auto const& replicated = detail::pick<replicated_of<chain, In, E>>(rest...);
    detail::decode_stages<0, In>(stages_, exec, id, dims, y, x, replicated, detail::pick<workspace_on<E>>(rest...));
  }

  /// The last stage sums the ranks' values, and the other stages decode the sum.
  template <real In, executor E>
    requires(detail::heads_decode_sums<S...> && !detail::states_of<In, E, S...>::any_replicated &&
             detail::adds_parts<detail::last_of<S...>, typename detail::input_at<sizeof...(S) - 1, In, S...>::type, E>)
  void decode_sum(E const& exec, call const& id, shape const& dims, gathered_on<E, output<In>> in, accum<In> factor,
                  values_on<E, In> x, workspace_on<E>& ws) const {
    if constexpr (detail::fuses_tiles<In, E, S...>) {
      auto const to = get<0>().template restored<In>(id, dims, ext::tensor_sink<In>{x.data, 1}, factor);
      if (can_encode_from<E>(dims)) return get<1>().template decode_sum_to<In>(exec, before<1>(dims), in, to);
    }
    auto const add_up = [&](call const& own, shape const& rest, auto values) {
      get<last>().decode_sum(exec, own, rest, in, factor, values, ws);
    };
    detail::decode_heads<0, In>(stages_, exec, id, dims, x, no_state(), ws, add_up);
  }

  /// The maximum number of entries that the first stage emits. The later stages encode the values of these entries.
  std::uint64_t most_entries(shape const& dims) const requires detail::counts_entries<detail::stage_at<0, S...>> {
    return get<0>().most_entries(dims);
  }
  template <class In, executor E>
    requires(detail::emits_entries<detail::stage_at<0, S...>, In, E> && !detail::states_of<In, E, S...>::any_replicated)
  void decode_entries(E const& exec, call const& id, shape const& dims, encoded_on<E, output<In> const> y,
                      ext::selected_entries<In> const& to, workspace_on<E>& ws) const {
    using values = input<In, 1>;
    auto const own = detail::side_bytes<In>(get<0>(), dims);
    auto const tail = y.side.subspan(detail::own_side<0, In>(stages_, dims));
    auto const mid = ws.template take<values>(before<1>(dims).n);
    detail::decode_stages<1, values>(stages_, exec, at<1>(id), before<1>(dims),
                                     encoded_on<E, output<In> const>{y.values, tail}, mid, no_state(), ws);
    get<0>().decode_entries(exec, id, dims, encoded_on<E, values const>{mid, y.side.first(own)}, to, ws);
  }

  /// The chain uses the rounds of its last stage. The other stages are summable, and encode again in each round.
  unsigned rounds(shape const& dims, unsigned ranks) const requires detail::ends_in_rounds<S...> {
    return detail::rounds(get<last>(), before<last>(dims), ranks);
  }
  template <class In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const requires detail::ends_in_rounds<S...> {
    return detail::transfer_of<input<In, last>>(get<last>(), r, before<last>(dims), ranks);
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims,
                                     unsigned ranks) const requires detail::ends_in_rounds<S...> {
    return detail::exchange_scratch_from<0, In>(stages_, exec, dims, ranks);
  }
  template <real In, executor E>
    requires detail::ends_in_rounds<S...> && detail::fits<In, E, S...>
  void produce(E const& exec, call const& id, shape const& dims, unsigned ranks, unsigned round,
               values_on<E, In const> x, span_on<E, std::byte> out, auto const& replicated, auto& local,
               workspace_on<E>& ws) const {
    auto const produce_last = [&](call const& own, shape const& rest, auto values) {
      get<last>().produce(exec, own, rest, ranks, round, values, out, detail::part<last>(replicated),
                          detail::part<last>(local), ws);
    };
    detail::encode_heads<0, In>(stages_, exec, id, dims, x, replicated, local, ws, produce_last);
  }
  template <real In, executor E>
    requires detail::ends_in_rounds<S...> && detail::fits<In, E, S...>
  void absorb(E const& exec, call const& id, shape const& dims, unsigned ranks, unsigned round, received_on<E> in,
              values_on<E, In> x, auto& replicated, auto& local, workspace_on<E>& ws) const {
    auto const absorb_last = [&](call const& own, shape const& rest, auto values) {
      get<last>().absorb(exec, own, rest, ranks, round, in, values, detail::part<last>(replicated),
                         detail::part<last>(local), ws);
    };
    if (round + 1 < rounds(dims, ranks))
      return absorb_last(at<last>(id), before<last>(dims), values_on<E, input<In, last>>());
    detail::decode_heads<0, In>(stages_, exec, id, dims, x, replicated, ws, absorb_last);
  }
  template <real In, executor E>
    requires detail::ends_in_rounds<S...> && detail::fits<In, E, S...>
  void contribution(E const& exec, call const& id, shape const& dims, unsigned ranks,
                    span_on<E, std::byte const> produced, values_on<E, In> sent, auto const& replicated,
                    workspace_on<E>& ws) const {
    auto const sent_by_last = [&](call const& own, shape const& rest, auto values) {
      get<last>().contribution(exec, own, rest, ranks, produced, values, detail::part<last>(replicated), ws);
    };
    detail::decode_heads<0, In>(stages_, exec, id, dims, sent, replicated, ws, sent_by_last);
  }

  /// Fuses a transform and a quantizer into one pass.
  template <class In, executor E, class Source>
    requires detail::fuses_tiles<In, E, S...>
  void encode_from(E const& exec, call const& id, shape const& dims, Source const& from, encoded_on<E, output<In>> y,
                   workspace_on<E>& ws) const {
    auto const through = get<0>().template transformed<In>(id, dims, from);
    get<1>().template encode_from<In>(exec, at<1>(id), before<1>(dims), through, y, ws);
  }
  template <executor E>
  bool can_encode_from([[maybe_unused]] shape const& dims) const {
    if constexpr (requires { get<0>().tile(); }) {
      return get<1>().holds_tiles(before<1>(dims).n, E::items_per_block, get<0>().tile());
    } else {
      return true;
    }
  }

  /// A sparsifier selects entries from the source. The second stage encodes these entries.
  template <class In, executor E, class Source>
    requires detail::fuses_picks<In, E, Source, S...>
  void encode_from(E const& exec, call const& id, shape const& dims, Source const& from, encoded_on<E, output<In>> y,
                   workspace_on<E>& ws) const {
    auto const own = detail::side_bytes<In>(get<0>(), dims);
    auto const rest = before<1>(dims);
    auto const picked = get<0>().template make_selected<In>(dims, ws);
    auto const tail = encoded_on<E, output<In>>{y.values, y.side.subspan(detail::own_side<0, In>(stages_, dims))};
    auto none = no_state();
    get<0>().select_from(exec, dims, from, picked, y.side.first(own), ws);
    detail::clear_padding<E>(exec, y.side.first(detail::own_side<0, In>(stages_, dims)), own);
    detail::encode<In>(get<1>(), exec, at<1>(id), rest, {picked.values, rest.n, nullptr}, tail, none, none, ws);
    auto const sent = ws.template take<In>(rest.n);
    detail::decode<In>(get<1>(), exec, at<1>(id), rest, tail, sent, none, ws);
    get<0>().write_back(exec, dims, from, picked, sent.data);
  }
  template <class In, executor E, class Source>
    requires(detail::fuses_picks<In, E, Source, S...>)
  std::size_t scratch_bytes_from(E const& exec, shape const& dims) const {
    auto const rest = before<1>(dims);
    return get<0>().template scratch_bytes_from<In, E, Source>(exec, dims) + scratch_for<In>(rest.n) +
           detail::scratch_bytes<In>(get<1>(), exec, rest);
  }

 private:
  template <class In, std::size_t I>
  using input = typename detail::input_at<I, In, S...>::type;

  static constexpr std::size_t last = sizeof...(S) - 1;

  template <std::size_t I>
  constexpr auto const& get() const {
    return std::get<I>(stages_);
  }
  template <std::size_t I>
  static constexpr call at(call id) {
    id.stage = static_cast<std::uint8_t>(id.stage + I);
    return id;
  }
  template <std::size_t I>
  constexpr shape before(shape const& dims) const {
    if constexpr (I == 0) {
      return dims;
    } else {
      return detail::output_shape(get<I - 1>(), before<I - 1>(dims));
    }
  }
  /// The state of stage I. If the chain uses the rounds of its last stage, the last stage also has exchange state.
  template <class In, std::size_t I, class E>
  auto make_part(E const& exec, call const& id, shape const& dims) const {
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
template <class... S>
constexpr auto chain_of(std::tuple<S...> stages) {
  return chain<S...>(std::move(stages));
}

}  // namespace detail

/// `a | b`: b encodes the values that a emits.
template <class A, class B>
  requires std::derived_from<A, pipeable> || std::derived_from<B, pipeable>
constexpr auto operator|(A a, B b) {
  if constexpr (composable<A, B>) {
    return detail::chain_of(std::tuple_cat(detail::stages_of(std::move(a)), detail::stages_of(std::move(b))));
  } else if constexpr (!stage<A, float, archetype>) {
    explain_stage<A>();
  } else if constexpr (!std::derived_from<B, pipeable> || terminal<B>) {
    explain_stage<B>();
  } else {
    static_assert(
        composable<A, B>,
        "pith: these stages do not fit: the right one cannot take the values that the left one emits (sparsifiers "
        "and transforms go before quantizers), or is no stage: call pith::explain_stage<B>()");
  }
}

}  // namespace pith::inline v0
