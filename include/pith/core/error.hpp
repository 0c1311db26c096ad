// pith/core/error.hpp — the exception types, and functions that build their messages.
#pragma once

#include <pith/config.hpp>

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

// A source file may catch an error that a source file with other flags throws, so these types are not in PITH_ABI.
namespace pith { inline namespace v0 {

/// Thrown if a workspace is smaller than a call needs.
struct workspace_exhausted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown if the ranks of a communicator call an exchange with different settings.
struct agreement_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown if a communicator's library reports a failure, or if another rank fails.
struct communication_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}}  // namespace pith::v0

namespace pith { inline namespace PITH_ABI {
namespace detail {

template <class N, class... Format>
PITH_NOINLINE std::string numeral(N value, Format... format) {
  char room[32];
  return std::string(room, std::to_chars(room, room + sizeof room, value, format...).ptr);
}

/// The shortest decimal representation that parses to the same number.
inline std::string shortest(double value) { return numeral(value); }
inline std::string hexadecimal(std::uint64_t value) { return numeral(value, 16); }

/// Converts a value to text. A number is converted to the shortest decimal representation that parses to the same
/// number. <sstream> is not included, because it has more lines than all headers of a codec together.
inline std::string_view written(std::string_view words) { return words; }
inline std::string_view written(char const& letter) { return {&letter, 1}; }
template <class N>
  requires(std::is_arithmetic_v<N>)
std::string written(N value) { return numeral(+value); }

PITH_NOINLINE inline void append(std::string& joined, std::string_view words) { joined += words; }

template <class... Parts>
std::string text(Parts const&... parts) {
  auto joined = std::string();
  (append(joined, written(parts)), ...);
  return joined;
}

/// Returns the prefix of the library's error messages, followed by the texts of all arguments.
template <class... Parts>
std::string sentence(Parts const&... parts) {
  return text("pith::", parts...);
}

/// Throws std::invalid_argument unless `holds`. The caller evaluates all parts, even if `holds` is true. If a part
/// allocates where allocations are forbidden, write `if (...) throw` instead.
template <class... Parts>
void require(bool holds, Parts const&... parts) {
  if (!holds) throw std::invalid_argument(sentence(parts...));
}

}  // namespace detail

namespace ext {
using detail::shortest;
}
}}  // namespace pith::PITH_ABI
