// pith/codec/detail/saved_state.hpp — saved states with a format number, a description and a checksum.
#pragma once

#include <pith/codec/detail/state_words.hpp>
#include <pith/core/checksum.hpp>
#include <pith/core/error.hpp>
#include <pith/core/span.hpp>
#include <pith/version.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The header of a saved state. The description and the values of the states follow the header. docs/state_format.md
/// defines header, description and values.
struct saved_header {
  char magic[7] = {'p', 'i', 's', 't', 'a', 't', 'e'};
  char format = '2';
  std::uint64_t checksum = 0;  ///< the checksum of all following bytes
  std::uint64_t word_bytes = 0, state_bytes = 0;
};
static_assert(sizeof(saved_header) == 32);

inline std::uint64_t checksum_of_saved(span<std::byte const> saved) {
  return checksum(saved.subspan(offsetof(saved_header, word_bytes)));
}

/// The first line of the description, for human readers. `require_words` does not compare this line.
inline std::string version_line() { return text("pith ", PITH_VERSION_MAJOR, '.', PITH_VERSION_MINOR, '\n'); }

/// Removes the first line from `text`, and returns the line without its line break.
inline std::string_view take_line(std::string_view& text) {
  auto const line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

/// Serialises states. `own_words` is the part of the description that must be equal when the states are restored.
inline std::vector<std::byte> save_states(std::string const& own_words, span<std::byte const> states) {
  auto const words = version_line() + own_words;
  auto head = saved_header{.word_bytes = words.size(), .state_bytes = states.size()};
  auto saved = std::vector<std::byte>(sizeof head + words.size() + states.size());
  std::memcpy(saved.data(), &head, sizeof head);
  std::memcpy(saved.data() + sizeof head, words.data(), words.size());
  if (!states.empty()) std::memcpy(saved.data() + sizeof head + words.size(), states.data(), states.size());
  head.checksum = checksum_of_saved(saved);
  std::memcpy(saved.data(), &head, sizeof head);
  return saved;
}

struct saved_parts {
  std::string_view words;
  span<std::byte const> states;
};

/// Throws if a saved state has fewer than `least` bytes.
inline void require_whole(char const* call, std::uint64_t least, std::uint64_t got) {
  require(got >= least, call, ": the state is cut off: it must have at least ", least, " bytes, got ", got);
}
/// Throws if a saved state with the header `head` does not have `got` bytes. The header may be damaged, so the sum of
/// its sizes may overflow.
inline void require_size_of(char const* call, saved_header const& head, std::uint64_t got) {
  auto const rest = got - sizeof head, expected = sizeof head + head.word_bytes + head.state_bytes;
  auto const is_whole = head.word_bytes <= rest && head.state_bytes <= rest - head.word_bytes;
  require(is_whole, call, ": the state is cut off: it must have ", expected, " bytes, got ", got);
  require(got == expected, call, ": the state has trailing bytes: it must have ", expected, " bytes, got ", got);
}

/// Splits the result of `save_states` into its parts. Throws std::invalid_argument if the bytes are damaged or have
/// another format.
inline saved_parts open_states(char const* call, span<std::byte const> saved) {
  auto head = saved_header();
  require_whole(call, sizeof head, saved.size());
  std::memcpy(&head, saved.data(), sizeof head);
  require(std::equal(head.magic, head.magic + sizeof head.magic, saved_header().magic), call,
          ": the state must begin with \"pistate\", got other bytes: pass what export_state returned");
  require(head.format == saved_header().format, call, ": the state must be of format ", saved_header().format - '0',
          ", got ", head.format - '0');
  require_size_of(call, head, saved.size());
  auto const sum = checksum_of_saved(saved);
  require(sum == head.checksum, call, ": the state is damaged: its checksum must be ", head.checksum, ", got ", sum);
  auto words = std::string_view(reinterpret_cast<char const*>(saved.data() + sizeof head), head.word_bytes);
  take_line(words);
  return {words, saved.subspan(sizeof head + head.word_bytes)};
}

/// The number of letters that two texts have in common at their beginnings.
inline std::size_t common_letters(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}
/// Returns at most 200 letters of a line, which contain the letter at `place`.
inline std::string shown(std::string_view line, std::size_t place) {
  constexpr std::size_t most = 200;
  auto const first = place < most ? 0 : place - most / 2;
  return text(first > 0 ? "..." : "", line.substr(first, most), line.size() - first > most ? "..." : "");
}

/// The number of ranks in a line "rank R of N"; empty for other lines.
inline std::string_view ranks_in(std::string_view line) {
  auto const at = line.find(" of ");
  return at == line.npos ? std::string_view() : line.substr(at);
}

/// The rests of two descriptions, which begin with the first line that differs.
struct differing_words {
  std::string_view own, saved;
  bool is_exchange;  ///< whether the states are those of a gradient_exchange, which reshard() converts

  /// Returns advice for the error message.
  char const* advice() const {
    auto own_left = own, saved_left = saved;
    auto const here = take_line(own_left), there = take_line(saved_left);
    if (here.starts_with("rank ") && ranks_in(here) == ranks_in(there))
      return ": each rank saves its own state and imports its own state";
    if (here.starts_with("rank ") && is_exchange) return ": reshard() converts states for another number of ranks";
    return "";
  }
};

/// Throws std::invalid_argument if the descriptions `own` and `saved` differ. The message contains the first line that
/// differs.
inline void require_words(char const* call, std::string_view own, std::string_view saved) {
  if (own == saved) return;
  auto const same = common_letters(own, saved), first = own.substr(0, same).rfind('\n') + 1;  // npos + 1 is 0
  auto const differing = differing_words{own.substr(first), saved.substr(first), own.starts_with(exchange_word)};
  auto const here = take_line(own = differing.own), there = take_line(saved = differing.saved);
  require(!there.empty(), call, ": the state must also be of ", shown(here, 0), ", got one that ends before this line");
  require(!here.empty(), call, ": the state must be of nothing else, got one that is also of ", shown(there, 0));
  require(false, call, ": the state must be of ", shown(here, same - first), ", got one of ",
          shown(there, same - first), differing.advice());
}

/// Returns the values of the states in the result of `save_states`. Throws std::invalid_argument if the bytes are
/// damaged or have another format, or if their description is not `own_words`.
inline span<std::byte const> matching_states(char const* call, span<std::byte const> saved,
                                             std::string_view own_words) {
  auto const parts = open_states(call, saved);
  require_words(call, own_words, parts.words);
  return parts.states;
}

/// Throws if a saved number of steps is so large that the step counter could overflow.
inline void require_steps(char const* call, std::uint64_t steps) {
  constexpr auto bound = std::uint64_t{1} << 63;
  require(steps < bound, call, ": the number of steps must be below ", bound, ", got ", steps);
}
/// Reads the step counter, which is the first field of a codec's saved states.
inline std::uint64_t steps_in(std::byte const* states) {
  std::uint64_t steps = 0;
  std::memcpy(&steps, states, sizeof steps);
  return steps;
}

}}}  // namespace pith::PITH_ABI::detail
