// pith/registry/policies.hpp — the feedback policies that a text can name, one line per policy.
#pragma once

#include <pith/feedback/ef21.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/loco.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/no_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/signum_momentum.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/registry/parser.hpp>

#include <cstddef>
#include <string>
#include <tuple>

namespace pith { inline namespace PITH_ABI {

namespace detail {

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
  auto seen = std::string(",");
  for (std::size_t i = 1; t.has(i); ++i) {
    auto const& word = t.arguments[i].only();
    auto const kind = word.name.substr(0, word.name.find('_')) + ",";  // clip_norm and clip_value exclude each other
    require(seen.find("," + kind) == std::string::npos, "parse: momentum_correction takes each option once, got \"",
            t.text, "\"");
    seen += kind;
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

template <class Parser>
typename Parser::feedback two_sided_from(syntax::term const& t, Parser) {
  auto const server = Parser::sums::chain(t.arguments[0]);
  if (!t.has(1)) return two_sided(server);
  auto const& worker = t.arguments[1].only();
  if (worker.angle.empty() && worker.is_plain("residual", 0, 2)) return two_sided(server, residual_from(worker));
  return two_sided(server, Parser::policy(worker));
}

}  // namespace detail

/// The feedback policies. The example texts describe whole codecs, because a text cannot consist of a policy only.
/// `make` also receives the `parser`.
inline constexpr auto policy_methods = std::tuple(
    method("residual<bfloat16>", 0, 2, "the residual in 16 bits per element; residual<bfloat16>(beta, gamma)",
           {"ef(top_k(0.01),residual<bfloat16>)", "ef(qsgd<4>,residual<bfloat16>(0.9,1))"},
           [](auto const& t, auto) { return detail::residual_from<residual<bfloat16>>(t); }),
    method("residual", 0, 2, "the compression error of a step is added to the next gradient; residual(beta, gamma)",
           {"ef(qsgd<4>,residual(0.9,1))"}, [](auto const& t, auto) { return detail::residual_from(t); }),
    method("own_residual", 0, 2, "the residual against a rank's own payload", {"ef(top_k(0.01),own_residual)"},
           [](auto const& t, auto) { return detail::residual_from<own_residual>(t); }),
    method("mean_residual", 0, 2, "the residual against the mean",
           {"ef(top_k(0.01),mean_residual)", "ef(scaled_sign,mean_residual(0.9,0.5))"},
           [](auto const& t, auto) { return detail::residual_from<mean_residual>(t); }),
    method("loco", 0, 2, "a moving average of the compression error; loco(beta, period)",
           {"ef(block_int<4>,loco(0.8,1024))"},
           [](auto const& t, auto) {
             return loco(t.has(0) ? t.number(0) : 0.8, t.template count<std::uint64_t>(1, 1024));
           }),
    method("no_feedback", 0, 0, "no feedback", {"ef(top_k(0.01),no_feedback)"},
           [](auto const&, auto) { return no_feedback(); }),
    method("ef_sign(lr)", 1, 1, "a residual in units of the weights' step", {"ef(scaled_sign,ef_sign(0.02))"},
           [](auto const& t, auto) { return ef_sign(t.number(0)); }),
    method("signum_momentum", 0, 1, "signs of a momentum", {"ef(sign,signum_momentum(0.9))"},
           [](auto const& t, auto) { return t.has(0) ? signum_momentum(t.number(0)) : signum_momentum(); }),
    method(
        "momentum_correction", 0, 4,
        "a momentum of the residual; momentum_correction(0.9, nesterov, unmasked, clip_norm(1))",
        {"ef(top_k(0.01),momentum_correction(0.9))", "ef(top_k(0.01),momentum_correction(0.9,nesterov,clip_norm(1)))",
         "ef(top_k(0.01),momentum_correction(0.9,unmasked))"},
        [](auto const& t, auto) { return detail::momentum_from(t); }),
    method("ef21", 0, 1, "sends the difference from an estimate, with a running mean",
           {"ef(top_k(0.01),ef21(0.9))", "ef(scaled_sign,ef21)"},
           [](auto const& t, auto) { return t.has(0) ? ef21(t.number(0)) : ef21(); }),
    method("two_sided(c,policy)", 1, 2, "also compresses the mean, with feedback",
           {"ef(scaled_sign,two_sided(scaled_sign))", "ef(scaled_sign,two_sided(scaled_sign,ef21))"},
           [](auto const& t, auto parser) { return detail::two_sided_from(t, parser); }));

/// The descriptions of all feedback policies.
inline constexpr auto policy_listings = detail::listings_of(policy_methods);

}}  // namespace pith::PITH_ABI
