// tests/emulator/ptx/lexer.hpp — the words of PTX.
#pragma once

#include <cstddef>
#include <string>

namespace emulator {

/// Reads names with their dots and modifiers, numbers, strings and single characters; skips space and comments.
class lexer {
 public:
  lexer(char const* text, std::size_t line) : p_(text), line_(line) {}

  /// The next word, or an empty one at the end.
  std::string next();
  std::string peek() const;
  /// Reads the next word if it is this one.
  bool accept(char const* word);
  /// Reads up to a word and past it.
  void skip_past(char const* word);
  void skip_line();
  void skip_space();

  char const* position() const { return p_; }
  std::size_t line() const { return line_; }

 private:
  void skip_comment();

  char const* p_;
  std::size_t line_;
};

}  // namespace emulator
