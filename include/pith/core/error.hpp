// pith/core/error.hpp — what is thrown, and how its one sentence is written.
#pragma once

#include <charconv>
#include <sstream>
#include <stdexcept>
#include <string>

namespace pith::inline v0 {

/// A workspace is too small for what a codec asked of it.
struct workspace_exhausted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The ranks of a communicator do not agree on what they exchange.
struct agreement_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A communicator's library reported a failure, or another rank gave up.
struct communication_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

/// The parts, one after another.
template <class... Parts>
std::string text(Parts const&... parts) {
  auto joined = std::ostringstream();
  (joined << ... << parts);
  return joined.str();
}

/// The same, as an error begins.
template <class... Parts>
std::string sentence(Parts const&... parts) {
  return text("pith::", parts...);
}

/// The shortest decimal that reads back as the same number.
inline std::string shortest(double value) {
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

template <class... Parts>
void require(bool holds, Parts const&... parts) {
  if (!holds) throw std::invalid_argument(sentence(parts...));
}

}  // namespace detail
}  // namespace pith::inline v0
