// tests/emulator/ptx/lexer.cpp — see lexer.hpp.
#include "ptx/lexer.hpp"

#include <cctype>
#include <cstring>

#include "ptx/fault.hpp"

namespace emulator {

namespace {

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || (c != '\0' && std::strchr("_$%.", c)); }

/// The end of the word that starts at p.
char const* end_of_word(char const* p) {
  if (*p == '"') {
    auto const* const end = std::strchr(p + 1, '"');
    return end ? end + 1 : p + std::strlen(p);
  }
  if (!is_of_word(*p)) return p + 1;
  while (is_of_word(*p) || (p[0] == ':' && p[1] == ':')) p += *p == ':' ? 2 : 1;
  return p;
}

}  // namespace

std::string lexer::next() {
  skip_space();
  if (*p_ == '\0') return {};
  auto const* const begin = p_;
  p_ = end_of_word(p_);
  return {begin, p_};
}

std::string lexer::peek() const { return lexer(*this).next(); }

bool lexer::accept(char const* word) {
  auto after = *this;
  if (after.next() != word) return false;
  *this = after;
  return true;
}

void lexer::skip_past(char const* word) {
  for (auto w = next(); w != word; w = next())
    if (w.empty()) throw fault(std::string("PTX ends before ") + word);
}

void lexer::skip_line() {
  while (*p_ != '\0' && *p_ != '\n') ++p_;
}

void lexer::skip_space() {
  for (;; ++p_) {
    while (p_[0] == '/' && (p_[1] == '/' || p_[1] == '*')) skip_comment();
    if (*p_ == '\n')
      ++line_;
    else if (*p_ != ' ' && *p_ != '\t' && *p_ != '\r')
      return;
  }
}

void lexer::skip_comment() {
  if (p_[1] == '/') return skip_line();
  for (; *p_ != '\0' && !(p_[0] == '*' && p_[1] == '/'); ++p_) line_ += *p_ == '\n';
  if (*p_ != '\0') p_ += 2;
}

}  // namespace emulator
