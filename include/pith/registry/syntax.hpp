// pith/registry/syntax.hpp — the syntax tree of a codec's text: terms name<angle>(argument, ...), joined by |.
#pragma once

#include <pith/core/error.hpp>

#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace syntax {

struct term;

/// A sequence of terms joined by |, from left to right.
struct pipeline {
  std::vector<term> terms;
  std::string text;

  term const& only() const;
};

/// A term name<angle>(arguments). A number or a word is a term without <angle> and without arguments.
struct term {
  std::string name, angle, text;
  std::vector<pipeline> arguments;

  void takes(std::size_t least, std::size_t most) const {
    detail::require(least <= arguments.size() && arguments.size() <= most, "parse: ", name, " takes ", least,
                    least == most ? "" : detail::text(" to ", most), most == 1 ? " argument" : " arguments", ", got \"",
                    text, "\"");
  }
  /// Returns whether the term has the given name. Throws if a term with this name has an argument in <> or a wrong
  /// number of arguments in ().
  bool is_plain(std::string_view word, std::size_t least, std::size_t most) const {
    if (name != word) return false;
    detail::require(angle.empty(), "parse: ", name, " takes no <", angle, ">, got \"", text, "\"");
    takes(least, most);
    return true;
  }
  bool has(std::size_t i) const { return i < arguments.size(); }

  double number(std::size_t i) const { return read<double>("a number", arguments.at(i).text); }
  template <class N = std::uint64_t>
  N count(std::size_t i) const {
    return read<N>("a whole number", arguments.at(i).text);
  }
  template <class N = std::uint64_t>
  N count(std::size_t i, std::type_identity_t<N> otherwise) const {
    return has(i) ? count<N>(i) : otherwise;
  }
  int angle_count() const {
    detail::require(!angle.empty(), "parse: ", name, " must have <Bits>, got \"", text, "\"");
    return read<int>("a whole number", angle);
  }

  /// Returns the index of argument i in a list of words, or `otherwise` if argument i is missing.
  std::size_t word(std::size_t i, std::initializer_list<std::string_view> words, std::size_t otherwise = 0) const {
    if (!has(i)) return otherwise;
    auto list = std::string();
    for (std::size_t w = 0; w < words.size(); ++w) {
      auto const& expected = words.begin()[w];
      if (expected == arguments[i].text) return w;
      list.append(w == 0 ? "" : w + 1 < words.size() ? ", " : " or ").append(expected);
    }
    throw std::invalid_argument(
        detail::sentence("parse: expected ", list, " in \"", text, "\", got \"", arguments[i].text, "\""));
  }
  /// Returns true if argument i is the second of two words. Returns false if it is the first word or is missing.
  bool is_second(std::size_t i, std::string_view first, std::string_view second) const {
    return word(i, {first, second}) == 1;
  }

 private:
  template <class T>
  T read(char const* what, std::string_view digits) const {
    T value = 0;
    auto const end = digits.data() + digits.size();
    auto const got = std::from_chars(digits.data(), end, value);
    auto const* const beyond = got.ec == std::errc::result_out_of_range ? ", which is out of range" : "";
    detail::require(got.ec == std::errc() && got.ptr == end, "parse: expected ", what, " in \"", text, "\", got \"",
                    digits, "\"", beyond);
    return value;
  }
};

inline term const& pipeline::only() const {
  detail::require(terms.size() == 1, "parse: expected one stage or policy, got \"", text, "\"");
  return terms.front();
}

/// A recursive-descent parser, which ignores blanks.
class reader {
 public:
  /// The maximum length of a text, which also limits the depth of recursion.
  static constexpr std::size_t max_characters = 1024;

  static pipeline read(std::string_view text) {
    detail::require(text.size() <= max_characters, "parse: text must have at most ", max_characters,
                    " characters, got ", text.size());
    auto from = reader(text);
    auto whole = from.read_pipeline();
    if (from.at_ < text.size()) from.fail("the end or |");
    return whole;
  }

 private:
  explicit reader(std::string_view text) : text_(text) {}

  pipeline read_pipeline() {
    auto const first = skip_blanks();
    auto made = pipeline();
    do {
      made.terms.push_back(read_term());
    } while (accept('|'));
    made.text = trimmed(first);
    return made;
  }

  term read_term() {
    auto const first = skip_blanks();
    auto made = term();
    made.name = read_name();
    if (accept('<')) {
      made.angle = read_name();
      expect('>');
    }
    if (accept('(') && !accept(')')) {
      do {
        made.arguments.push_back(read_pipeline());
      } while (accept(','));
      expect(')');
    }
    made.text = trimmed(first);
    return made;
  }

  std::string read_name() {
    auto const first = skip_blanks();
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || one_of(text_[at_], "_.+-")))
      ++at_;
    if (at_ == first) fail("a name or a number");
    return std::string(text_.substr(first, at_ - first));
  }

  static bool one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

  bool accept(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string_view(&c, 1));
  }
  [[noreturn]] void fail(std::string_view expected) const {
    throw std::invalid_argument(
        detail::sentence("parse: expected ", expected, " at column ", at_ + 1, " of \"", text_, "\", got ",
                         at_ < text_.size() ? detail::text("\"", text_.substr(at_), "\"") : "the end"));
  }
  std::size_t skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_;
  }
  std::string trimmed(std::size_t first) const {
    auto last = at_;
    while (last > first && std::isspace(static_cast<unsigned char>(text_[last - 1]))) --last;
    return std::string(text_.substr(first, last - first));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}}}  // namespace pith::PITH_ABI::syntax
