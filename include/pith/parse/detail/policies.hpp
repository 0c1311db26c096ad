// pith/parse/detail/policies.hpp — the parser of feedback policies.
#pragma once

#include <pith/feedback/any_feedback.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/no_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/signum_momentum.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/parse/detail/stages.hpp>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace pith::inline v0::detail {

/// Parses `name` or `name(beta, gamma)` as a feedback policy F. F is `residual`, or a class derived from `residual`.
template <class F>
std::optional<F> residual_from(syntax::term const& t, std::string_view word) {
  if (!t.is_plain(word, 0, 2)) return std::nullopt;
  if (!t.has(0)) return F();
  t.takes(2, 2);
  return F(t.number(0), t.number(1));
}

inline clipping clipping_from(syntax::term const& t) {
  if (t.is_plain("clip_norm", 1, 1)) return clipping::norm(t.number(0));
  require(
      t.is_plain("clip_value", 1, 1),
      "parse: an option of momentum_correction must be nesterov, unmasked, clip_norm(most) or clip_value(most), got \"",
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

inline constexpr std::string_view policy_forms[] = {
    "residual",        "own_residual",        "mean_residual", "no_feedback",        "ef_sign(lr)",
    "signum_momentum", "momentum_correction", "ef21",          "two_sided(c,policy)"};
inline constexpr std::string_view loose_forms[] = {"unverified"};

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
      sentence("parse: \"", t.text, "\" is not a feedback policy", proposal(t.name, policy_forms, loose_forms),
               " ef takes (codec), (codec,policy) and (codec,policy,unverified); policies are ", listed(policy_forms)));
}

}  // namespace pith::inline v0::detail
