// pith/registry/parser.hpp — the parser of codec texts, for methods that the caller lists.
#pragma once

#include <pith/adaptor/bypass.hpp>
#include <pith/codec/any_chain.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/feedback/any_feedback.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/residual.hpp>
#include <pith/registry/detail/stage_lookup.hpp>
#include <pith/registry/method.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The number of methods in a tuple.
template <class Methods>
inline constexpr std::size_t count_of = std::tuple_size_v<std::remove_cvref_t<Methods>>;

/// Constructs F(), F(beta) or F(beta, gamma), where F is residual or a class derived from it.
template <class F = residual<accumulated, chosen_weights>>
F residual_from(syntax::term const& t) {
  if (!t.has(0)) return F();
  return t.has(1) ? F(t.number(0), t.number(1)) : F(t.number(0));
}

}  // namespace detail

/// Constructs codecs for values of In on E from syntax trees. `M` has the methods that texts may name: the tuples
/// `stages`, `exchanges` and `policies`.
///
///   complexity  `stage` takes half of the compile time. Explicit instantiations of stage<0>, stage<stages_per_part>,
///               stage<2 stages_per_part> and so on can lie in several source files, which compile in parallel
template <class In, class E, class M>
class parser {
 public:
  using feedback = any_feedback<In, E>;
  using sums = parser<accum<In>, E, M>;

  static constexpr auto stages = detail::listings_of(M::stages);
  static constexpr auto exchanges = detail::with_wrappers(detail::listings_of(M::exchanges));
  static constexpr auto policies = detail::listings_of(M::policies);
  static constexpr std::size_t stages_per_part = 9;

  static any_codec<In, E> codec(syntax::pipeline const& p);
  static any_chain<In, E> chain(syntax::pipeline const& p);
  /// Constructs the stage that a term names, among the methods from number `First` on.
  template <std::size_t First = 0>
  static any_stage<In, E> stage(syntax::term const& t);
  static feedback policy(syntax::term const& t);

  /// Calls f with the codec that p describes: a chain, a collective, or a codec of M::exchanges.
  template <class F>
  static detail::made_by<F> exchanged(syntax::pipeline const& p, F const& f) {
    if (p.terms.size() > 1) return f(chain(p));
    return detail::with_method<detail::made_by<F>, detail::count_of<decltype(M::exchanges)>>(
        M::exchanges, p.only(), [&](auto const& one) -> detail::made_by<F> { return one.make(p.only(), parser(), f); },
        [&] { return staged(p, f); });
  }

 private:
  /// If the stage is a collective, calls f with this stage, so that an exchange uses the stage's rounds. Otherwise
  /// calls f with a type-erased chain.
  template <class F>
  static detail::made_by<F> staged(syntax::pipeline const& p, F const& f) {
    auto const exchange = [&]<class S>(S const& stage) -> detail::made_by<F> {
      if constexpr (collective<S, In, E>) {
        return f(stage);
      } else {
        return f(chain(p));
      }
    };
    return detail::with_stage_among<stages.size()>(M::stages, p.only(), exchange, stages, exchanges);
  }

  static any_codec<In, E> fed_back(syntax::term const& t);
  template <class F>
  static any_codec<In, E> fed_back_by(syntax::pipeline const& p, F const& policy, bool loose);
};

template <class In, class E, class M>
any_chain<In, E> parser<In, E, M>::chain(syntax::pipeline const& p) {
  auto made = std::vector<any_stage<In, E>>();
  for (auto const& t : p.terms) made.push_back(stage(t));
  return any_chain<In, E>(std::move(made));
}

template <class In, class E, class M>
template <std::size_t First>
any_stage<In, E> parser<In, E, M>::stage(syntax::term const& t) {
  using made = any_stage<In, E>;
  constexpr auto next = std::min(First + stages_per_part, stages.size());
  return detail::with_method<made, next, First>(
      M::stages, t, [&](auto const& one) { return one.make(t, [](auto const& found) { return made(found); }); },
      [&]() -> made {
        if constexpr (next < stages.size()) {
          return stage<next>(t);
        } else {
          detail::throw_no_stage(t, stages, exchanges);
        }
      });
}

template <class In, class E, class M>
any_feedback<In, E> parser<In, E, M>::policy(syntax::term const& t) {
  return detail::with_method<feedback, policies.size()>(
      M::policies, t, [&](auto const& one) { return feedback(one.make(t, parser())); },
      [&]() -> feedback {
        throw std::invalid_argument(detail::sentence(
            "parse: \"", t.text, "\" is not a feedback policy",
            detail::proposal(t.name, policies, std::array<std::string_view, 1>{"unverified"}),
            " ef takes (codec), (codec,policy), (codec,unverified) and (codec,policy,unverified); policies are ",
            detail::listed(policies)));
      });
}

template <class In, class E, class M>
template <class F>
any_codec<In, E> parser<In, E, M>::fed_back_by(syntax::pipeline const& p, F const& policy, bool loose) {
  return sums::exchanged(p, [&]<class C>(C const& codec) -> any_codec<In, E> {
    if (loose) return error_feedback(codec, policy, unverified);
    if constexpr (detail::may_contract<C> || detail::memoryless<F>) {
      return error_feedback(codec, policy);
    } else {
      throw std::invalid_argument(detail::sentence("parse: c of ef(c) must be contractive, got ", codec.name(),
                                                   ": write ef(", codec.name(), ",unverified)"));
    }
  });
}

template <class In, class E, class M>
any_codec<In, E> parser<In, E, M>::fed_back(syntax::term const& t) {
  auto const loose = t.arguments.back().text == "unverified" && t.arguments.size() > 1;
  detail::require(loose || !t.has(2), "parse: the last of three arguments of ef must be unverified, got \"",
                  t.arguments.back().text, "\"");
  if (t.arguments.size() == (loose ? 2u : 1u)) return fed_back_by(t.arguments[0], residual(), loose);
  auto const& word = t.arguments[1].only();
  auto const is_residual = word.angle.empty() && word.is_plain("residual", 0, 2);
  if (is_residual && !word.has(0)) return fed_back_by(t.arguments[0], residual(), loose);
  return fed_back_by(t.arguments[0], is_residual ? feedback(detail::residual_from(word)) : policy(word), loose);
}

template <class In, class E, class M>
any_codec<In, E> parser<In, E, M>::codec(syntax::pipeline const& p) {
  auto const& t = p.terms.front();
  if (p.terms.size() == 1 && t.is_plain("ef", 1, 3)) return fed_back(t);
  if (p.terms.size() == 1 && t.is_plain("bypass", 1, 2)) {
    auto const inner = codec(t.arguments[0]);
    return t.has(1) ? bypass(inner, t.count(1)) : bypass(inner);
  }
  return exchanged(p, [](auto const& made) { return any_codec<In, E>(made); });
}

/// Constructs the codec that a text describes. The text may name the caller's methods `M`. No other methods of the
/// library are compiled.
///
///     struct my_methods {
///       static constexpr auto stages = std::tuple(
///           method("top_k", 1, 1, "the largest magnitudes", {"top_k(0.01)"},
///                  [](auto const& t, auto const& f) { return f(top_k(t.number(0))); }),
///           method("qsgd<8>", 0, 0, "random rounding to 8 bits", {"qsgd<8>"},
///                  [](auto const&, auto const& f) { return f(qsgd<8>()); }));
///       static constexpr auto exchanges = std::tuple(), policies = std::tuple();
///     };
///     auto codec = parse<float>("ef(top_k(0.01)|qsgd<8>)", my_methods());
///
///   requires    pith/registry/method.hpp describes `method`. A stage may be a class of the caller
///   errors      std::invalid_argument; the message contains the expected syntax and the text found instead
///   properties  a text can always use ef with `residual`, bypass and flat. Payloads equal those of the codec that is
///               constructed in C++
template <real In, executor E = seq_executor, class M>
any_codec<In, E> parse(std::string_view text, M) {
  auto const read = syntax::reader::read(text);
  auto const& first = read.terms.front();
  auto const is_flat = read.terms.size() == 1 && first.is_plain("flat", 1, 1);
  auto codec = parser<In, E, M>::codec(is_flat ? first.arguments[0] : read);
  if (is_flat) codec = codec.flattened();
  constexpr auto most = syntax::reader::max_characters;
  auto const letters = codec.name().size();
  detail::require(letters <= most, "parse: the codec's name must have at most ", most, " characters, got ", letters);
  return codec;
}

}}  // namespace pith::PITH_ABI
