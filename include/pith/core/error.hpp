// pith/core/error.hpp — what is thrown, and how its one sentence is written.
#pragma once

#include <pith/config.hpp>

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

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

template <class N, class... Format>
PITH_SELDOM std::string numeral(N value, Format... format) {
  char room[32];
  return std::string(room, std::to_chars(room, room + sizeof room, value, format...).ptr);
}

/// The shortest decimal that reads back as the same number.
inline std::string shortest(double value) { return numeral(value); }
inline std::string hexadecimal(std::uint64_t value) { return numeral(value, 16); }

/// As a stream writes it, numbers with all their digits; <sstream> brings more lines than a codec has of its own.
inline std::string_view written(std::string_view words) { return words; }
inline std::string_view written(char const& letter) { return {&letter, 1}; }
template <class N>
  requires(std::is_arithmetic_v<N>)
std::string written(N value) { return numeral(+value); }

PITH_SELDOM inline void append(std::string& joined, std::string_view words) { joined += words; }

/// The parts, one after another.
template <class... Parts>
std::string text(Parts const&... parts) {
  auto joined = std::string();
  (append(joined, written(parts)), ...);
  return joined;
}

/// The same, as an error begins.
template <class... Parts>
std::string sentence(Parts const&... parts) {
  return text("pith::", parts...);
}

template <class... Parts>
void require(bool holds, Parts const&... parts) {
  if (!holds) throw std::invalid_argument(sentence(parts...));
}

}  // namespace detail
}  // namespace pith::inline v0
