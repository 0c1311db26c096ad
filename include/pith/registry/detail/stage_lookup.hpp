// pith/registry/detail/stage_lookup.hpp — the stage that a term names, or an error that lists all valid names.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/core/error.hpp>
#include <pith/registry/method.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Returns the letters and digits of a word, in lower case. For example, "Top-K" becomes "topk".
inline std::string plain_letters(std::string_view word) {
  auto plain = std::string();
  for (auto const letter : word) {
    auto const c = static_cast<unsigned char>(letter);
    if (std::isalnum(c) != 0) plain += static_cast<char>(std::tolower(c));
  }
  return plain;
}

/// The Levenshtein distance of two words: the least number of letters to insert, delete or replace.
inline std::size_t edits(std::string_view from, std::string_view to) {
  auto row = std::vector<std::size_t>(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    auto diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      auto const replaced = diagonal + (from[i - 1] != to[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

constexpr std::string_view form_of(std::string_view form) { return form; }
constexpr std::string_view form_of(listing const& method) { return method.form; }
/// Returns the name at the beginning of a form such as "qsgd<Bits>" or "ef(c)".
constexpr std::string_view name_of(std::string_view form) { return form.substr(0, form.find_first_of("<(|")); }

/// Considers the listed names that need edits of at most a third of their letters. Returns, for example, "; did you
/// mean top_k?" with the name that needs the fewest edits. Returns "." if there is no such name.
template <class... Forms>
std::string proposal(std::string_view word, Forms const&... lists) {
  auto const meant = plain_letters(word);
  auto best = std::string_view();
  auto fewest = meant.size() + 1;
  auto const consider = [&](std::string_view name) {
    auto const plain = plain_letters(name);
    auto const count = edits(meant, plain);
    if (name != word && 3 * count <= plain.size() && count < fewest) best = name, fewest = count;
  };
  auto const consider_all = [&](auto const& forms) {
    for (auto const& form : forms) consider(name_of(form_of(form)));
  };
  (consider_all(lists), ...);
  return best.empty() ? "." : text("; did you mean ", best, "?");
}

/// Returns a list of names, such as "identity, cast<half>, ... and damped(stage)".
template <class Forms>
std::string listed(Forms const& forms) {
  auto all = std::string();
  auto left = std::size(forms);
  for (auto const& form : forms) {
    all += form_of(form);
    if (--left > 0) all += left == 1 ? " and " : ", ";
  }
  return all;
}

/// The type that f returns for a stage.
template <class F>
using made_by = decltype(std::declval<F const&>()(identity()));

/// The wrappers of codecs: ef, bypass and flat. The parser itself constructs them.
inline constexpr auto wrapper_listings = std::array{
    listing{"ef(c)",
            "error feedback: adds the residual to the next gradient",
            {"ef(scaled_sign)", "ef(top_k(0.2)|qsgd<8>)", "ef(qsgd<4>,residual(0.9,1))", "ef(sign,unverified)"}},
    listing{"bypass(c,n)",
            "tensors of fewer than 1,024 elements uncompressed; bypass(c, n): of fewer than n",
            {"bypass(top_k(0.01),1024)", "bypass(ef(scaled_sign),64)"}},
    listing{"flat(c)", "the tensors of a bucket as one vector", {"flat(ef(top_k(0.01)))"}}};

/// Returns the descriptions of the wrappers, followed by those of `others`.
template <std::size_t N>
constexpr std::array<listing, wrapper_listings.size() + N> with_wrappers(std::array<listing, N> const& others) {
  auto all = std::array<listing, wrapper_listings.size() + N>();
  std::copy(others.begin(), others.end(), std::copy(wrapper_listings.begin(), wrapper_listings.end(), all.begin()));
  return all;
}

template <class Stages, class Exchanges>
[[noreturn]] PITH_NOINLINE void throw_no_stage(syntax::term const& t, Stages const& stages,
                                               Exchanges const& exchanges) {
  throw std::invalid_argument(sentence("parse: \"", t.text, "\" is not a stage", proposal(t.name, stages, exchanges),
                                       " Stages are ", listed(stages),
                                       ". These wrap a whole chain or stand alone: ", listed(exchanges)));
}

/// Calls f with the stage that a term names, among the first `Until` methods. If no method has the name, throws an
/// error that lists `stages` and `exchanges`.
template <std::size_t Until, class Methods, class F, class Stages, class Exchanges>
made_by<F> with_stage_among(Methods const& methods, syntax::term const& t, F const& f, Stages const& stages,
                            Exchanges const& exchanges) {
  return with_method<made_by<F>, Until>(
      methods, t, [&](auto const& one) -> made_by<F> { return one.make(t, f); },
      [&]() -> made_by<F> { throw_no_stage(t, stages, exchanges); });
}

}}}  // namespace pith::PITH_ABI::detail
