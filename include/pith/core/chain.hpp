// pith/core/chain.hpp — stages in a row: a | b gives a's values to b, and a's side record to the wire.
#pragma once

#include <pith/core/capability.hpp>
#include <pith/core/codec.hpp>
#include <pith/core/explain.hpp>
#include <pith/core/source.hpp>
#include <pith/core/stage.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>

namespace pith::inline v0 {

namespace detail {

template <class In, class... S>
struct chained {};
template <class In>
struct chained<In> {
  using type = In;
};
template <class In, class First, class... Rest>
  requires requires { typename output_of<First, In>; }
struct chained<In, First, Rest...> : chained<output_of<First, In>, Rest...> {};

/// Each stage takes what the one before it emits.
template <class In, class E, class... S>
struct joined : std::true_type {};
template <class In, class E, class First, class... Rest>
struct joined<In, E, First, Rest...> : std::false_type {};
template <class In, class E, class First, class... Rest>
  requires stage<First, In, E>
struct joined<In, E, First, Rest...> : joined<output_of<First, In>, E, Rest...> {
};

template <class In, class E, class... S>
concept fits = joined<In, E, S...>::value;

/// What stage I of a chain takes.
template <std::size_t I, class In, class... S>
struct input_at {
  using type = In;
};
template <std::size_t I, class In, class First, class... Rest>
  requires(I > 0)
struct input_at<I, In, First, Rest...> : input_at<I - 1, output_of<First, In>, Rest...> {};

template <class... State>
inline constexpr bool keeps_state = (!stateless<State> || ...);

/// The states that a chain of `S...` keeps for values of `In`.
template <class In, class E, class Indices, class... S>
struct chain_states;
template <class In, class E, std::size_t... I, class... S>
struct chain_states<In, E, std::index_sequence<I...>, S...> {
  template <std::size_t J>
  using input = typename input_at<J, In, S...>::type;
  using agreed = states<agreed_part, agreed_of<S, input<I>, E>...>;
  using local = states<local_part, local_of<S, input<I>, E>...>;

  static constexpr bool any_agreed = keeps_state<agreed_of<S, input<I>, E>...>;
  static constexpr bool any_local = keeps_state<local_of<S, input<I>, E>...>;
};
template <class In, class E, class... S>
using states_of = chain_states<In, E, std::index_sequence_for<S...>, S...>;

template <std::size_t I, class States>
constexpr auto& part(States& states) {
  if constexpr (stateless<States>) {
    return nothing;
  } else {
    return std::get<I>(states.each);
  }
}

constexpr bool all_but_last(std::initializer_list<bool> holds) {
  for (auto i = holds.begin(); i + 1 < holds.end(); ++i) {
    if (!*i) return false;
  }
  return true;
}

/// All but the last embed isometrically.
template <class... S>
inline constexpr bool heads_isometric = all_but_last({isometric<S>...});
/// All but the last are isometric projections of a known delta.
template <class... S>
inline constexpr bool heads_project = all_but_last({isometric<S> && projection<S> && contractive<S>...});
template <class... S>
using last_of = std::tuple_element_t<sizeof...(S) - 1, std::tuple<S...>>;

constexpr std::size_t last_of_true(std::initializer_list<bool> holds) {
  std::size_t last = 0;
  for (auto i = holds.begin(); i != holds.end(); ++i) {
    if (*i) last = static_cast<std::size_t>(i - holds.begin());
  }
  return last;
}
/// The last stage whose count varies.
template <class... S>
inline constexpr std::size_t last_variable = last_of_true({variable_rate<S>...});

template <class S>
constexpr S at(S const& s, [[maybe_unused]] double rate) {
  if constexpr (rate_adjustable<S>) {
    return s.at(rate);
  } else {
    return s;
  }
}

template <class... S>
constexpr rate_form chain_rate_form() {
  auto form = rate_form::fixed;
  ((form = joined_rate(form, rate_form_of<S>())), ...);
  return form;
}

template <class... S>
constexpr sum_form chain_sum_form() {
  if constexpr (!(summable<S> && ...)) {
    return sum_form::none;
  } else {
    return ((S::sums == sum_form::decode) || ...) ? sum_form::decode : sum_form::encode;
  }
}

/// A transform of tiles, which a quantizer can take from fast memory ...
template <class S, class In>
concept transforms_tiles = requires(S const& s, call const& id, shape const& dims) {
  s.template transformed<In>(id, dims, plain_source<In>());
};
/// ... and the quantizer: both together are one pass.
template <class S, class In, class E>
concept takes_tiles = std::same_as<In, accum<In>> && encodes_from<S, In, E, plain_source<In>> &&
    requires(S const& s, std::uint64_t n) {
  { s.holds_tiles(n, E::block_span, 1u) } -> std::same_as<bool>;
};

template <class In, class E, class... S>
inline constexpr bool fuses_tiles = false;
template <class In, class E, class First, class Second>
  requires transforms_tiles<First, In> && takes_tiles<Second, In, E>
inline constexpr bool fuses_tiles<In, E, First, Second> = true;

template <class In, class E, class Source, class... S>
inline constexpr bool fuses_picks = false;
template <class In, class E, class Source, class First, class Second>
  requires picks_from<First, In, E, Source> && stateless<agreed_of<Second, In, E>> && stateless<local_of<Second, In, E>>
inline constexpr bool fuses_picks<In, E, Source, First, Second> = true;

}  // namespace detail

/// Stages from left to right. Flat: (a | b) | c and a | (b | c) are one type with the same bytes.
///
///   emits    the last stage's values; side record: the stages' side records in order, each aligned to 8 bytes
///   is       omega = prod (1 + omega_i) - 1 where decoders embed isometrically;
///            delta = prod delta_i behind isometric projections, the last one delta or 1 - omega (Basu et al. 2019)
template <class... S>
class chain : public pipeable {
 public:
  template <class In>
  using output = typename detail::chained<In, S...>::type;

  static constexpr bool is_projection = (projection<S> && ...) && detail::heads_isometric<S...>;
  static constexpr bool is_isometric = (isometric<S> && ...);
  static constexpr bool is_reproducible = (reproducible<S> && ...);
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
    return side_from<0, In>(dims);
  }
  template <class In, executor E>
  constexpr std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return scratch_from<0, In>(exec, dims);
  }
  /// The count of the last variable-rate stage is the chain's.
  template <class In>
    requires(variable_rate<S> || ...)
  constexpr std::size_t count_offset(shape const& dims) const { return count_from<0, In>(dims); }

  /// The stage whose rate can be adjusted, at `rate`; the others as they are.
  chain at(double rate) const requires((rate_adjustable<S> + ...) == 1) {
    return std::apply([rate](auto const&... s) { return chain(std::tuple<S...>(detail::at(s, rate)...)); }, stages_);
  }

  double omega(shape dims) const requires(unbiased<S>&&...) && detail::heads_isometric<S...> {
    double grown = 1;
    each([&](auto const& s) {
      grown *= 1 + s.omega(dims);
      dims = detail::output_shape(s, dims);
    });
    return grown - 1;
  }

  double delta(shape dims) const requires detail::heads_project<S...> &&
      (contractive<detail::last_of<S...>> || unbiased<detail::last_of<S...>>) {
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
    requires(detail::states_of<In, E, S...>::any_agreed)
  auto make_agreed(E const& exec, call const& id, shape const& dims) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return typename detail::states_of<In, E, S...>::agreed{
          {detail::make_agreed_in_chain<input<In, I>>(exec, get<I>(), at<I>(id), before<I>(dims))...}};
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
  void encode(E const& exec, call const& id, shape const& dims, stream_on<E, In const> x, encoded_on<E, output<In>> y,
              Rest&... rest) const {
    if constexpr (detail::fuses_tiles<In, E, S...>) {
      auto const from = detail::plain_source<In>{x.data};
      if (can_encode_from<E>(dims)) {
        return encode_from<In>(exec, id, dims, from, y, detail::pick<workspace_on<E>>(rest...));
      }
    }
    auto const& agreed = detail::pick<agreed_of<chain, In, E>>(rest...);
    auto& local = detail::pick<local_of<chain, In, E>>(rest...);
    encode_stages<0, In>(exec, id, dims, x, y, agreed, local, detail::pick<workspace_on<E>>(rest...));
  }
  template <class In, executor E, class... Rest>
    requires detail::fits<In, E, S...>
  void decode(E const& exec, call const& id, shape const& dims, encoded_on<E, output<In> const> y, stream_on<E, In> x,
              Rest&... rest) const {
    if constexpr (detail::fuses_tiles<In, E, S...>) {
      auto const to = get<0>().template restored<In>(id, dims, detail::tensor_sink<In>{x.data, 1});
      if (can_encode_from<E>(dims)) return get<1>().template decode_to<In>(exec, before<1>(dims), y, to);
    }
    auto const& agreed = detail::pick<agreed_of<chain, In, E>>(rest...);
    decode_stages<0, In>(exec, id, dims, y, x, agreed, detail::pick<workspace_on<E>>(rest...));
  }

  /// A transform and a quantizer in one pass.
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
      return get<1>().holds_tiles(before<1>(dims).n, E::block_span, get<0>().tile());
    } else {
      return true;
    }
  }

  /// A sparsifier in the pass that reads, and another stage on what it picked.
  template <class In, executor E, class Source>
    requires detail::fuses_picks<In, E, Source, S...>
  void encode_from(E const& exec, call const& id, shape const& dims, Source const& from, encoded_on<E, output<In>> y,
                   workspace_on<E>& ws) const {
    auto const own = detail::side_bytes<In>(get<0>(), dims);
    auto const rest = before<1>(dims);
    auto const picked = get<0>().template make_picks<In>(dims, ws);
    auto const tail = encoded_on<E, output<In>>{y.values, y.side.subspan(own_side<0, In>(dims))};
    auto none = no_state();
    get<0>().select_from(exec, dims, from, picked, y.side.first(own), ws);
    detail::clear_padding<E>(exec, y.side.first(own_side<0, In>(dims)), own);
    detail::encode<In>(get<1>(), exec, at<1>(id), rest, {picked.values, rest.n, nullptr}, tail, none, none, ws);
    auto const sent = ws.template take<In>(rest.n);
    detail::decode<In>(get<1>(), exec, at<1>(id), rest, tail, sent, none, ws);
    get<0>().settle(exec, dims, from, picked, sent.data);
  }
  template <class In, executor E, class Source>
    requires detail::fuses_picks<In, E, Source, S...> std::size_t scratch_bytes_from(E const& exec, shape const& dims)
  const {
    auto const rest = before<1>(dims);
    return get<0>().template scratch_bytes_from<In, E, Source>(exec, dims) + scratch_for<In>(rest.n) +
           detail::scratch_bytes<In>(get<1>(), exec, rest);
  }

 private:
  /// What stage I takes.
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
  /// The shape that stage I sees.
  template <std::size_t I>
  constexpr shape before(shape const& dims) const {
    if constexpr (I == 0) {
      return dims;
    } else {
      return detail::output_shape(get<I - 1>(), before<I - 1>(dims));
    }
  }
  template <class F>
  constexpr void each(F&& f) const {
    std::apply([&f](auto const&... s) { (f(s), ...); }, stages_);
  }

  template <std::size_t I, class In>
  constexpr std::size_t own_side(shape const& dims) const {
    return detail::align_up(detail::side_bytes<In>(get<I>(), dims), detail::section_alignment);
  }
  template <std::size_t I, class In>
  constexpr std::size_t side_from(shape const& dims) const {
    if constexpr (I == last) {
      return detail::side_bytes<In>(get<I>(), dims);
    } else {
      return own_side<I, In>(dims) +
             side_from<I + 1, output_of<decltype(get<I>()), In>>(detail::output_shape(get<I>(), dims));
    }
  }
  template <std::size_t I, class In>
  constexpr std::size_t count_from(shape const& dims) const {
    if constexpr (I == detail::last_variable<S...>) {
      return detail::count_offset<In>(get<I>(), dims);
    } else {
      return own_side<I, In>(dims) +
             count_from<I + 1, output_of<decltype(get<I>()), In>>(detail::output_shape(get<I>(), dims));
    }
  }
  template <std::size_t I, class In, class E>
  constexpr std::size_t scratch_from(E const& exec, shape const& dims) const {
    auto const own = detail::scratch_bytes<In>(get<I>(), exec, dims);
    if constexpr (I == last) {
      return own;
    } else {
      using out = output_of<decltype(get<I>()), In>;
      auto const rest = detail::output_shape(get<I>(), dims);
      return scratch_for<out>(rest.n) + std::max(own, scratch_from<I + 1, out>(exec, rest));
    }
  }

  template <std::size_t I, class In, class E, class Y, class Agreed, class Local>
  void encode_stages(E const& exec, call const& id, shape const& dims, stream_on<E, In const> x, Y y,
                     Agreed const& agreed, Local& local, workspace_on<E>& ws) const {
    auto const& stage = get<I>();
    if constexpr (I == last) {
      detail::encode<In>(stage, exec, id, dims, x, y, detail::part<I>(agreed), detail::part<I>(local), ws);
    } else {
      using out = output_of<decltype(stage), In>;
      auto const scope = ws.mark();
      auto const rest = detail::output_shape(stage, dims);
      auto const mid = ws.template take<out>(rest.n);
      auto const own = detail::side_bytes<In>(stage, dims);
      auto const to = detail::counted<In>(stage, dims, encoded_on<E, out>{mid, y.side.first(own)});
      detail::encode<In>(stage, exec, id, dims, x, to, detail::part<I>(agreed), detail::part<I>(local), ws);
      detail::clear_padding<E>(exec, y.side.first(own_side<I, In>(dims)), own);
      encode_stages<I + 1, out>(exec, next_stage(id), rest, stream_on<E, out const>(to.values),
                                Y{y.values, y.side.subspan(own_side<I, In>(dims))}, agreed, local, ws);
    }
  }
  template <std::size_t I, class In, class E, class Y, class Agreed>
  void decode_stages(E const& exec, call const& id, shape const& dims, Y y, stream_on<E, In> x, Agreed const& agreed,
                     workspace_on<E>& ws) const {
    auto const& stage = get<I>();
    if constexpr (I == last) {
      detail::decode<In>(stage, exec, id, dims, y, x, detail::part<I>(agreed), ws);
    } else {
      using out = output_of<decltype(stage), In>;
      auto const scope = ws.mark();
      auto const rest = detail::output_shape(stage, dims);
      auto const mid = ws.template take<out>(rest.n);
      decode_stages<I + 1, out>(exec, next_stage(id), rest, Y{y.values, y.side.subspan(own_side<I, In>(dims))}, mid,
                                agreed, ws);
      detail::decode<In>(stage, exec, id, dims,
                         encoded_on<E, out const>{mid, y.side.first(detail::side_bytes<In>(stage, dims))}, x,
                         detail::part<I>(agreed), ws);
    }
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
  } else if constexpr (!stage<A, float, detail::archetype>) {
    explain_stage<A>();
  } else if constexpr (!std::derived_from<B, pipeable> || closed<B>) {
    explain_stage<B>();
  } else {
    static_assert(
        composable<A, B>,
        "pith: these stages do not fit: the right one cannot take the values that the left one emits (sparsifiers "
        "and transforms go before quantizers), or is no stage: ask pith::explain_stage<B>()");
  }
}

}  // namespace pith::inline v0
