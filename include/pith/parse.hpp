// pith/parse.hpp — a codec from its text: parse<float>("ef(top_k(0.01)|qsgd<8>)").
#pragma once

#include <pith/coding/trits.hpp>
#include <pith/comm/two_shot.hpp>
#include <pith/core/any_chain.hpp>
#include <pith/core/syntax.hpp>
#include <pith/feedback/any_feedback.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/no_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/signum_momentum.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/pith.hpp>
#include <pith/quantize/eight_bit.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/quantize/summed_terngrad.hpp>
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

template <class F>
auto with_terngrad(syntax::term const& t, F const& f) {
  auto const sigma = t.has(0) ? t.number(0) : 2.5;
  auto const bucket = t.count(1, 0);
  return sigma == 0 ? f(terngrad<outliers::kept>(bucket)) : f(terngrad<>(sigma, bucket));
}

/// Calls f with trits of the ternary stage that a term says.
template <class F>
auto with_trits(syntax::term const& t, F const& f) {
  auto const wrapped = [&]<class S>(S const& stage) -> decltype(f(identity())) {
    if constexpr (ternary<S>) {
      return f(trits(stage));
    } else {
      throw std::logic_error(sentence("parse: ", stage.name(), " is not ternary"));
    }
  };
  if (t.is_plain("terngrad", 0, 2)) return with_terngrad(t, wrapped);
  require(t.name == "qsgd" && t.angle == "2", "parse: trits(s) needs terngrad or qsgd<2>, got \"", t.text, "\"");
  return with_qsgd(t, wrapped, std::integer_sequence<int, 0>());
}

template <class F>
auto with_natural(syntax::term const& t, F const& f) {
  t.takes(0, 0);
  require(t.angle == "8" || t.angle == "9", "parse: natural<Bits> needs 8 or 9 Bits, got \"", t.text, "\"");
  return t.angle == "8" ? f(natural<8>()) : f(natural<9>());
}

/// Calls f with a quantizer of one or two bits.
template <class F>
auto with_signs(syntax::term const& t, F const& f) {
  if (t.is_plain("scaled_sign", 0, 1)) return f(scaled_sign(t.count(0, 0)));
  if (t.is_plain("one_bit", 0, 1)) {
    if (t.has(0) && t.arguments[0].text == "row") return f(one_bit<axis::row>());
    if (t.has(0) && t.arguments[0].text == "column") return f(one_bit<axis::column>());
    return f(one_bit<>(t.count(0, 0)));
  }
  if (t.is_plain("terngrad", 0, 2)) return with_terngrad(t, f);
  if (t.is_plain("summed_terngrad", 0, 1)) return f(summed_terngrad(t.has(0) ? t.number(0) : 2.5));
  auto const is_summed = t.is_plain("summed_sign", 0, 1);
  auto const even =
      (is_summed || t.is_plain("sign", 0, 1)) && t.is_second(0, "positive", "zero") ? ties::zero : ties::positive;
  return is_summed ? f(summed_sign(even)) : f(sign(even));
}

constexpr bool says_signs(std::string_view name) {
  return name == "scaled_sign" || name == "one_bit" || name == "sign" || name == "summed_sign" || name == "terngrad" ||
         name == "summed_terngrad";
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
  if (t.name == "natural") return with_natural(t, f);
  if (says_signs(t.name)) return with_signs(t, f);
  if (t.is_plain("trits", 1, 1)) return with_trits(t.arguments[0].only(), f);
  if (t.is_plain("identity", 0, 0)) return f(identity());
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
  throw std::invalid_argument(sentence(
      "parse: \"", t.text,
      "\" is no stage; stages are identity, cast<half>, cast<bfloat16>, scaled_sign, "
      "one_bit, sign, summed_sign, terngrad, summed_terngrad, trits(stage), qsgd<Bits>, natural<Bits>, eight_bit, "
      "top_k, threshold, random_k, random_blocks, hadamard, power_sgd and damped(stage); ef and bypass go around a "
      "whole chain: "
      "bypass(ef(a|b),n)"));
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

/// The policy of this name, residual or one like it: name, or name(beta, gamma).
template <class F>
std::optional<F> residual_from(syntax::term const& t, std::string_view word) {
  if (!t.is_plain(word, 0, 2)) return std::nullopt;
  if (!t.has(0)) return F();
  t.takes(2, 2);
  return F(t.number(0), t.number(1));
}

inline clipping clipping_from(syntax::term const& t) {
  if (t.is_plain("clip_norm", 1, 1)) return clipping::norm(t.number(0));
  require(t.is_plain("clip_value", 1, 1),
          "parse: behind momentum_correction's momentum stand nesterov, unmasked, clip_norm(most) or clip_value(most), "
          "not \"",
          t.text, "\"");
  return clipping::value(t.number(0));
}

inline momentum_correction momentum_from(syntax::term const& t) {
  auto options = momentum_options();
  for (std::size_t i = 1; t.has(i); ++i) {
    auto const& word = t.arguments[i].only();
    if (word.is_plain("nesterov", 0, 0)) {
      options.nesterov = true;
    } else if (word.is_plain("unmasked", 0, 0)) {
      options.masks = false;
    } else {
      options.clip = clipping_from(word);
    }
  }
  return momentum_correction(t.has(0) ? t.number(0) : 0.9, options);
}

template <class In, class E>
any_feedback<In, E> policy_from(syntax::term const& t) {
  if (auto const made = residual_from<own_residual>(t, "own_residual")) return *made;
  if (auto const made = residual_from<mean_residual>(t, "mean_residual")) return *made;
  if (t.is_plain("no_feedback", 0, 0)) return no_feedback();
  if (t.is_plain("ef_sign", 1, 1)) return ef_sign(t.number(0));
  if (t.is_plain("signum_momentum", 0, 1)) return signum_momentum(t.has(0) ? t.number(0) : 0.9);
  if (t.is_plain("momentum_correction", 0, 4)) return momentum_from(t);
  if (t.is_plain("ef21", 0, 1)) return ef21(t.has(0) ? t.number(0) : 1);
  if (t.is_plain("two_sided", 1, 2)) {
    auto const server = chain_from<accum<In>, E>(t.arguments[0]);
    auto const worker = t.has(1) ? residual_from<residual>(t.arguments[1].only(), "residual") : residual();
    if (worker) return two_sided(server, *worker);
    return two_sided(server, policy_from<In, E>(t.arguments[1].only()));
  }
  throw std::invalid_argument(
      sentence("parse: unverified or a policy must follow a codec in ef(...), not \"", t.text,
               "\"; policies are residual, own_residual, mean_residual, no_feedback, ef_sign, signum_momentum, "
               "momentum_correction, ef21 and two_sided(codec)"));
}

template <class In, class E>
any_codec<In, E> codec_from(syntax::pipeline const& p);

/// Calls f with what feedback goes around: a chain, or a chain in two shots.
template <class T, class E, class F>
auto with_exchanged(syntax::pipeline const& p, F const& f) {
  auto const& t = p.terms.front();
  if (p.terms.size() > 1 || !t.is_plain("two_shot", 1, 2)) return with_chain<T, E>(p, f);
  auto const second = t.has(1) ? codec_from<T, E>(t.arguments[1]) : codec_from<T, E>(t.arguments[0]);
  return f(two_shot(chain_from<T, E>(t.arguments[0]), second));
}

/// Feedback by policy `keeps`.
template <class In, class E, class F>
any_codec<In, E> fed_back(syntax::pipeline const& p, F const& keeps, bool loose) {
  return with_exchanged<accum<In>, E>(p, [&]<class C>(C const& codec) -> any_codec<In, E> {
    if (loose) return error_feedback<C, F, false>(codec, keeps);
    if constexpr (may_contract<C> || forgetful<F>) {
      return error_feedback<C, F, true>(codec, keeps);
    } else {
      throw std::invalid_argument(
          sentence("parse: ", codec.name(), " does not promise to contract: write ef(", codec.name(), ",unverified)"));
    }
  });
}

template <class In, class E>
any_codec<In, E> feedback_from(syntax::term const& t) {
  auto const loose = t.arguments.back().text == "unverified" && t.arguments.size() > 1;
  t.takes(1, loose ? 3 : 2);
  if (t.arguments.size() == (loose ? 2u : 1u)) return fed_back<In, E>(t.arguments[0], residual(), loose);
  auto const& policy = t.arguments[1].only();
  if (auto const keeps = residual_from<residual>(policy, "residual")) {
    return fed_back<In, E>(t.arguments[0], *keeps, loose);
  }
  return fed_back<In, E>(t.arguments[0], policy_from<In, E>(policy), loose);
}

template <class In, class E>
any_codec<In, E> codec_from(syntax::pipeline const& p) {
  auto const& t = p.terms.front();
  if (p.terms.size() == 1 && t.is_plain("ef", 1, 3)) return feedback_from<In, E>(t);
  if (p.terms.size() == 1 && t.is_plain("bypass", 2, 2)) {
    return bypass(codec_from<In, E>(t.arguments[0]), t.count(1));
  }
  return with_exchanged<In, E>(p, [](auto const& codec) { return any_codec<In, E>(codec); });
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
