// pith/parse.hpp — a codec from its text: parse<float>("ef(top_k(0.01)|qsgd<8>)").
#pragma once

#include <pith/core/any_chain.hpp>
#include <pith/core/syntax.hpp>
#include <pith/pith.hpp>
#include <pith/quantize/eight_bit.hpp>
#include <pith/sparsify/random_blocks.hpp>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace pith::inline v0 {

namespace detail {

/// Calls f with a qsgd of as many bits as the text says.
template <class F, int... Bits>
auto with_qsgd(syntax::term const& t, F const& f, std::integer_sequence<int, Bits...>) {
  t.takes(0, 3);
  auto const bits = t.angle_count();
  auto const bucket = t.count(1, 128);
  auto const of = t.is_second(2, "l2", "max") ? norm::max : norm::l2;
  auto made = std::optional<decltype(f(identity()))>();
  auto const match = [&]<int B>(std::integral_constant<int, B>) {
    if (bits == B)
      made =
          f(qsgd<B>(static_cast<int>(std::min(t.count(0, qsgd<B>::most_levels), std::uint64_t{1} << B)), bucket, of));
  };
  (match(std::integral_constant<int, Bits + 2>()), ...);
  require(made.has_value(), "parse: qsgd<Bits> needs 2 <= Bits <= 10, got \"", t.text, "\"");
  return *std::move(made);
}

template <scaling Scaling, class F>
auto with_random(syntax::term const& t, F const& f) {
  auto const density = t.number(0);
  if (t.name == "random_k") {
    if (t.is_second(2, "shared", "own")) return f(random_k<Scaling, drawing::own>(density));
    return f(random_k<Scaling>(density));
  }
  return f(
      random_blocks<Scaling>(density, static_cast<std::uint32_t>(std::min<std::uint64_t>(t.count(1, 64), 1u << 20))));
}

/// Calls f with the stage that a term says, damped ones aside.
template <class F>
auto with_plain_stage(syntax::term const& t, F const& f) {
  if (t.name == "cast" && t.angle == "half") return t.takes(0, 0), f(cast<half>());
  if (t.name == "cast" && t.angle == "bfloat16") return t.takes(0, 0), f(cast<bfloat16>());
  if (t.name == "qsgd") return with_qsgd(t, f, std::make_integer_sequence<int, 9>());
  if (t.is_plain("identity", 0, 0)) return f(identity());
  if (t.is_plain("scaled_sign", 0, 1)) return f(scaled_sign(t.count(0, 0)));
  if (t.is_plain("top_k", 1, 1)) return f(top_k(t.number(0)));
  if (t.is_plain("threshold", 1, 3)) {
    auto const tau = t.number(0), capacity = t.has(1) ? t.number(1) : 1;
    return t.is_second(2, "keep", "dense") ? f(threshold<overflow::dense>(tau, capacity)) : f(threshold(tau, capacity));
  }
  if (t.is_plain("hadamard", 0, 1))
    return f(hadamard(static_cast<std::uint32_t>(std::min<std::uint64_t>(t.count(0, 256), 1u << 20))));
  if (t.is_plain("eight_bit", 0, 2))
    return f(eight_bit(t.count(0, 0), t.is_second(1, "nearest", "floor") ? snap::floor : snap::nearest));
  if (t.is_plain("random_k", 1, 3) || t.is_plain("random_blocks", 1, 3)) {
    auto const at = t.name == "random_k" ? 1u : 2u;
    return t.is_second(at, "none", "unbiased") ? with_random<scaling::unbiased>(t, f)
                                               : with_random<scaling::none>(t, f);
  }
  if (t.is_plain("power_sgd", 1, 1)) {
    return f(power_sgd(static_cast<unsigned>(std::min<std::uint64_t>(t.count(0), 1u << 20))));
  }
  throw std::invalid_argument(sentence("parse: \"", t.text,
                                       "\" is no stage; stages are identity, cast<half>, cast<bfloat16>, scaled_sign, "
                                       "qsgd<Bits>, eight_bit, top_k, threshold, random_k, random_blocks, hadamard, "
                                       "power_sgd and damped(stage); ef and bypass go "
                                       "around a whole chain: bypass(ef(a|b),n)"));
}

template <class F>
auto with_stage(syntax::term const& t, F const& f) {
  using result = decltype(f(identity()));
  if (!t.is_plain("damped", 1, 1)) return with_plain_stage(t, f);
  return with_plain_stage(t.arguments[0].only(), [&]<class S>(S const& stage) -> result {
    if constexpr (unbiased<S>) {
      return f(damped(stage));
    } else {
      throw std::invalid_argument(sentence("parse: damped(s) needs an unbiased stage s; ", stage.name(), " is not"));
    }
  });
}

template <class T, class E>
any_chain<T, E> chain_from(syntax::pipeline const& p) {
  auto stages = std::vector<any_stage<T, E>>();
  for (auto const& t : p.terms)
    stages.push_back(with_stage(t, [](auto const& stage) { return any_stage<T, E>(stage); }));
  return any_chain<T, E>(std::move(stages));
}

/// Calls f with the codec of a pipeline for values of T. A collective keeps its type, hence its rounds.
template <class T, class E, class F>
auto with_chain(syntax::pipeline const& p, F const& f) {
  using result = decltype(f(identity()));
  if (p.terms.size() > 1) return f(chain_from<T, E>(p));
  return with_stage(p.only(), [&]<class S>(S const& stage) -> result {
    if constexpr (collective<S, T, E>) {
      return f(stage);
    } else {
      return f(chain_from<T, E>(p));
    }
  });
}

inline residual residual_from(syntax::pipeline const& p) {
  auto const& t = p.only();
  require(t.is_plain("residual", 2, 2),
          "parse: unverified or residual(beta, gamma) must follow a codec in ef(...), not \"", p.text, "\"");
  return residual(t.number(0), t.number(1));
}

template <class In, class E>
any_codec<In, E> feedback_from(syntax::term const& t) {
  auto const loose = t.arguments.back().text == "unverified" && t.arguments.size() > 1;
  t.takes(1, loose ? 3 : 2);
  auto const tuned = t.arguments.size() > (loose ? 2u : 1u);
  auto const keeps = tuned ? residual_from(t.arguments[1]) : residual();
  return with_chain<accum<In>, E>(t.arguments[0], [&]<class C>(C const& codec) {
    return loose ? any_codec<In, E>(error_feedback<C, residual, false>(codec, keeps))
                 : any_codec<In, E>(error_feedback<C, residual, true>(codec, keeps));
  });
}

template <class In, class E>
any_codec<In, E> codec_from(syntax::pipeline const& p) {
  auto const& t = p.terms.front();
  if (p.terms.size() == 1 && t.is_plain("ef", 1, 3)) return feedback_from<In, E>(t);
  if (p.terms.size() == 1 && t.is_plain("bypass", 2, 2)) {
    return bypass(codec_from<In, E>(t.arguments[0]), t.count(1));
  }
  return with_chain<In, E>(p, [](auto const& codec) { return any_codec<In, E>(codec); });
}

}  // namespace detail

/// The codec that a text says, for values of `In` on `E`: stages joined by |, inside ef(...) and bypass(..., n).
///
///     parse<float>("bypass(ef(top_k(0.01)|qsgd<8>), 1024)")
///
///   errors   std::invalid_argument says what stands where what was expected
///   is       the bytes of the codec of that name; any_codec::name() can be parsed again. A chain made at run time keeps
///            its element type: nothing follows a cast
template <real In, executor E = seq_executor>
any_codec<In, E> parse(std::string_view text) {
  return detail::codec_from<In, E>(syntax::reader::read(text));
}

}  // namespace pith::inline v0
