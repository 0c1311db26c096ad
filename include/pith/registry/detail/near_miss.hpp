// pith/registry/detail/near_miss.hpp — proposals for misspelt names.
#pragma once

#include <pith/core/error.hpp>
#include <pith/registry/method.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
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

}}}  // namespace pith::PITH_ABI::detail
