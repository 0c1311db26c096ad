// pith/parse/detail/stages.hpp — the parser of stages and chains.
#pragma once

#include <pith/codec/any_chain.hpp>
#include <pith/codec/damped.hpp>
#include <pith/codec/identity.hpp>
#include <pith/codec/syntax.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/parse/detail/near_miss.hpp>
#include <pith/parse/detail/quantizers.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/random_blocks.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/redsync.hpp>
#include <pith/sparsify/redsync_mean.hpp>
#include <pith/sparsify/sidco.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>
#include <pith/transform/hadamard.hpp>

#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace pith::inline v0::detail {

template <scaling Scaling, class F>
auto with_random(syntax::term const& t, F const& f) {
  auto const density = t.number(0);
  if (t.name == "random_k") {
    if (t.is_second(2, "shared", "own")) return f(random_k<Scaling, drawing::own>(density));
    return f(random_k<Scaling>(density));
  }
  return f(random_blocks<Scaling>(density, t.count<std::uint32_t>(1, 64)));
}

template <class S>
S low_rank(syntax::term const& t) {
  auto const rank = t.count<unsigned>(0);
  return t.has(1) ? S(rank, t.number(1)) : S(rank);
}

template <class F>
auto with_sidco(syntax::term const& t, F const& f) {
  auto const density = t.number(0);
  auto const stages = t.count<unsigned>(2, 0);
  if (t.has(1) && t.arguments[1].text == "gamma") return f(sidco<magnitudes::gamma>(density, stages));
  return t.is_second(1, "exponential", "pareto", ", gamma") ? f(sidco<magnitudes::pareto>(density, stages))
                                                            : f(sidco<>(density, stages));
}

/// Calls f with the term's sparsifier, which must estimate a threshold.
template <class F>
auto with_estimator(syntax::term const& t, F const& f) {
  if (t.is_plain("redsync", 1, 1)) return f(redsync(t.number(0)));
  if (t.is_plain("redsync_mean", 1, 1)) return f(redsync_mean(t.number(0)));
  if (t.is_plain("sidco", 1, 3)) return with_sidco(t, f);
  t.takes(1, 2);
  return f(gaussian_k(t.number(0), t.is_second(1, "coarse", "fine") ? correction::fine : correction::coarse));
}

constexpr bool says_estimator(std::string_view name) {
  return name == "redsync" || name == "redsync_mean" || name == "sidco" || name == "gaussian_k";
}

inline constexpr std::string_view stage_forms[] = {
    "identity",  "cast<half>", "cast<bfloat16>",      "scaled_sign",  "one_bit",       "sign",      "summed_sign",
    "terngrad",  "qsgd<Bits>", "summed_terngrad",     "trits(stage)", "natural<Bits>", "eight_bit", "top_k",
    "threshold", "redsync",    "redsync_mean",        "sidco",        "gaussian_k",    "random_k",  "random_blocks",
    "hadamard",  "power_sgd",  "one_sided_power_sgd", "damped(stage)"};
/// Names of codecs that are not stages, because they wrap a chain or have their own exchange.
inline constexpr std::string_view whole_forms[] = {"ef(c)",
                                                   "rated(c)",
                                                   "bypass(c,n)",
                                                   "two_shot(c)",
                                                   "ring(c)",
                                                   "hierarchical(c,d,ranks)",
                                                   "ok_top_k(density)",
                                                   "g_top_k(density)"};

[[noreturn]] PITH_SELDOM inline void throw_no_stage(syntax::term const& t) {
  throw std::invalid_argument(sentence("parse: \"", t.text, "\" is not a stage",
                                       proposal(t.name, stage_forms, whole_forms), " Stages are ", listed(stage_forms),
                                       ". These wrap a whole chain or stand alone: ", listed(whole_forms)));
}

/// Calls f with the term's stage, which must not be damped.
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
  if (says_estimator(t.name)) return with_estimator(t, f);
  if (t.is_plain("hadamard", 0, 1)) return f(hadamard(t.count<std::uint32_t>(0, 256)));
  if (t.is_plain("eight_bit", 0, 2))
    return f(eight_bit(t.count(0, 0), t.is_second(1, "nearest", "floor") ? snap::floor : snap::nearest));
  if (t.is_plain("random_k", 1, 3) || t.is_plain("random_blocks", 1, 3)) {
    auto const at = t.name == "random_k" ? 1u : 2u;
    return t.is_second(at, "none", "unbiased") ? with_random<scaling::unbiased>(t, f)
                                               : with_random<scaling::none>(t, f);
  }
  if (t.is_plain("power_sgd", 1, 2)) return f(low_rank<power_sgd>(t));
  if (t.is_plain("one_sided_power_sgd", 1, 2)) return f(low_rank<one_sided_power_sgd>(t));
  throw_no_stage(t);
}

template <class F>
auto with_stage(syntax::term const& t, F const& f) {
  using result = decltype(f(identity()));
  if (!t.is_plain("damped", 1, 1)) return with_plain_stage(t, f);
  return with_plain_stage(t.arguments[0].only(), [&]<class S>(S const& stage) -> result {
    if constexpr (unbiased<S>) {
      return f(damped(stage));
    } else {
      throw std::invalid_argument(sentence("parse: s of damped(s) must be unbiased, got ", stage.name()));
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

/// Calls f with the codec that a chain of terms describes. The codec encodes values of T. A collective is not
/// type-erased, so that its rounds are used.
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

}  // namespace pith::inline v0::detail
