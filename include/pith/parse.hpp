// pith/parse.hpp — a codec constructed from its text: parse<float>("ef(top_k(0.01)|qsgd<8>)").
#pragma once

#include <pith/codec/rated.hpp>
#include <pith/exchange/g_top_k.hpp>
#include <pith/exchange/hierarchical.hpp>
#include <pith/exchange/ok_top_k.hpp>
#include <pith/exchange/ring.hpp>
#include <pith/exchange/two_shot.hpp>
#include <pith/pith.hpp>
#include <pith/registry/policies.hpp>
#include <pith/registry/stages.hpp>

#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace pith::inline v0 {

namespace detail {

template <class In, class E>
any_codec<In, E> codec_from(syntax::pipeline const& p);

template <class T, class E>
any_chain<T, E> chain_from(syntax::pipeline const& p) {
  auto stages = std::vector<any_stage<T, E>>();
  for (auto const& t : p.terms)
    stages.push_back(with_stage(t, [](auto const& stage) { return any_stage<T, E>(stage); }));
  return any_chain<T, E>(std::move(stages));
}

/// Calls f with the codec that a pipeline of terms describes, for values of T. A collective is not type-erased, so that
/// its rounds are used.
template <class T, class E, class F>
made_by<F> with_chain(syntax::pipeline const& p, F const& f) {
  if (p.terms.size() > 1) return f(chain_from<T, E>(p));
  return with_stage(p.only(), [&]<class S>(S const& stage) -> made_by<F> {
    if constexpr (collective<S, T, E>) {
      return f(stage);
    } else {
      return f(chain_from<T, E>(p));
    }
  });
}

/// Parses rated(chain) or rated(chain,dense_from). A final argument `dense` sets the rate to 1.
template <class T, class E>
rated<any_chain<T, E>> rated_from(syntax::term const& t) {
  auto const is_dense = t.arguments.size() > 1 && t.arguments.back().text == "dense";
  t.takes(1, is_dense ? 3 : 2);
  auto const chain = chain_from<T, E>(t.arguments[0]);
  require(chain.has_rate(), "parse: c of rated(c) must have exactly one stage with an adjustable rate, got \"", t.text,
          "\"");
  auto const made = t.arguments.size() == (is_dense ? 3u : 2u) ? rated(chain, t.number(1)) : rated(chain);
  return is_dense ? made.at(1) : made;
}

/// Parses the argument of ef(...) and calls f with that codec: a chain, a rated chain, two_shot, hierarchical, ring, or
/// a sparse exchange.
template <class T, class E, class F>
auto with_exchanged(syntax::pipeline const& p, F const& f) {
  auto const& t = p.terms.front();
  if (p.terms.size() == 1 && t.is_plain("ok_top_k", 1, 1)) return f(ok_top_k(t.number(0)));
  if (p.terms.size() == 1 && t.is_plain("g_top_k", 1, 1)) return f(g_top_k(t.number(0)));
  if (p.terms.size() == 1 && t.is_plain("rated", 1, 3)) return f(rated_from<T, E>(t));
  if (p.terms.size() == 1 && t.is_plain("ring", 1, 1)) return f(ring(chain_from<T, E>(t.arguments[0])));
  if (p.terms.size() == 1 && t.is_plain("hierarchical", 3, 3)) {
    return f(hierarchical(chain_from<T, E>(t.arguments[0]), codec_from<T, E>(t.arguments[1]), t.count<unsigned>(2)));
  }
  if (p.terms.size() > 1 || !t.is_plain("two_shot", 1, 2)) return with_chain<T, E>(p, f);
  auto const second = t.has(1) ? codec_from<T, E>(t.arguments[1]) : codec_from<T, E>(t.arguments[0]);
  return f(two_shot(chain_from<T, E>(t.arguments[0]), second));
}

/// Error feedback with the feedback policy that the text `keeps` names.
template <class In, class E, class F>
any_codec<In, E> with_feedback(syntax::pipeline const& p, F const& keeps, bool loose) {
  return with_exchanged<accum<In>, E>(p, [&]<class C>(C const& codec) -> any_codec<In, E> {
    if (loose) return error_feedback(codec, keeps, unverified);
    if constexpr (may_contract<C> || memoryless<F>) {
      return error_feedback(codec, keeps);
    } else {
      throw std::invalid_argument(sentence("parse: c of ef(c) must be contractive, got ", codec.name(), ": write ef(",
                                           codec.name(), ",unverified)"));
    }
  });
}

template <class In, class E>
any_codec<In, E> feedback_from(syntax::term const& t) {
  auto const loose = t.arguments.back().text == "unverified" && t.arguments.size() > 1;
  t.takes(1, loose ? 3 : 2);
  if (t.arguments.size() == (loose ? 2u : 1u)) return with_feedback<In, E>(t.arguments[0], residual(), loose);
  auto const& policy = t.arguments[1].only();
  if (policy.is_plain("residual", 0, 2)) {
    return with_feedback<In, E>(t.arguments[0], residual_from<residual>(policy), loose);
  }
  return with_feedback<In, E>(t.arguments[0], policy_from<In, E>(policy), loose);
}

template <class In, class E>
any_codec<In, E> codec_from(syntax::pipeline const& p) {
  auto const& t = p.terms.front();
  if (p.terms.size() == 1 && t.is_plain("ef", 1, 3)) return feedback_from<In, E>(t);
  if (p.terms.size() == 1 && t.is_plain("bypass", 1, 2)) {
    auto const codec = codec_from<In, E>(t.arguments[0]);
    return t.has(1) ? bypass(codec, t.count(1)) : bypass(codec);
  }
  return with_exchanged<In, E>(p, [](auto const& codec) { return any_codec<In, E>(codec); });
}

}  // namespace detail

/// Constructs the codec that a text describes, for values of `In` on `E`. Stages are joined by |; ef(...) and
/// bypass(...) wrap them.
///
///     parse<float>("bypass(ef(top_k(0.01)|qsgd<8>), 1024)")
///
///   errors      std::invalid_argument; the message contains the expected syntax and the text found instead
///   properties  payloads equal those of the typed codec with the same name; parse accepts the result of
///               any_codec::name(). A chain built at run time has one element type, so no stage can follow a cast. If
///               all stages of a chain are summable, an all-reduce sums the payloads. Otherwise an all-gather sends the
///               payloads
template <real In, executor E = seq_executor>
any_codec<In, E> parse(std::string_view text) {
  auto codec = detail::codec_from<In, E>(syntax::reader::read(text));
  constexpr auto most = syntax::reader::most_characters;
  auto const letters = codec.name().size();
  detail::require(letters <= most, "parse: the codec's name must have at most ", most, " characters, got ", letters);
  return codec;
}

}  // namespace pith::inline v0
