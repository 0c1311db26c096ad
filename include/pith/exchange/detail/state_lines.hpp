// pith/exchange/detail/state_lines.hpp — a parser for the description of a saved state.
#pragma once

#include <pith/codec/detail/state_words.hpp>
#include <pith/codec/state.hpp>
#include <pith/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The size of an element type in bytes; 0 for an unknown type.
inline std::size_t element_bytes(std::string_view element) {
  struct type {
    std::string_view name;
    std::size_t bytes;
  };
  constexpr type types[] = {{"float", 4},  {"double", 8}, {"half", 2}, {"bfloat16", 2},
                            {"uint32", 4}, {"uint64", 8}, {"byte", 1}};
  for (auto const& t : types)
    if (t.name == element) return t.bytes;
  return 0;
}

/// The words of a line, separated by blanks.
inline std::vector<std::string_view> words_of(std::string_view line) {
  auto words = std::vector<std::string_view>();
  for (auto end = line.find(' '); end != line.npos; end = line.find(' ')) {
    words.push_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  words.push_back(line);
  return words;
}

/// The number in a word, or any number if the word is not a number or too large. Callers detect such a word: they format
/// the parsed line again and compare the text with the original line.
template <class N>
N number_in(std::string_view word) {
  auto number = N();
  for (auto const digit : word) number = static_cast<N>(10 * number + static_cast<N>(digit - '0'));
  return number;
}

inline void require_line(char const* call, bool is_right, char const* form, std::string_view line) {
  require(is_right, call, ": the state must have a line \"", form, "\", got \"", line.substr(0, 200), "\"");
}

/// `rank_of` and `field_of` parse the output of `rank_line` and `field_line`. Both functions check the line, since the
/// state may be forged.
inline std::pair<unsigned, unsigned> rank_of(char const* call, std::string_view line) {
  auto const words = words_of(line);
  auto const rank = number_in<unsigned>(words.size() == 4 ? words[1] : ""), ranks = number_in<unsigned>(words.back());
  require_line(call, rank < ranks && line == rank_line(rank, ranks), "rank R of N", line);
  return {rank, ranks};
}
inline field_form field_of(char const* call, std::string_view line) {
  auto words = words_of(line);
  words.resize(8);
  std::size_t kind = 0;
  while (kind < field_kinds.size() && field_kinds[kind] != words[1]) ++kind;
  auto const is_known = kind < field_kinds.size() && element_bytes(words[2]) > 0;
  auto const form =
      field_form{is_known ? static_cast<field_kind>(kind) : field_kind(), words[2], number_in<std::uint64_t>(words[3]),
                 number_in<unsigned>(words[5]), number_in<std::uint64_t>(words[7])};
  require_line(call, is_known && form.places > 0 && line == field_line(form),
               "field KIND ELEMENT COUNT places PLACES granule GRANULE", line);
  return form;
}

}}}  // namespace pith::PITH_ABI::detail
