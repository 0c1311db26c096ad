// pith/codec/detail/saved_state.hpp — saved states with a format number, a description and a checksum.
#pragma once

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

namespace pith::inline PITH_ABI::detail {

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

/// Splits the result of `save_states` into its parts. Throws std::invalid_argument if the bytes are damaged or have
/// another format.
inline saved_parts open_states(char const* call, span<std::byte const> saved) {
  auto head = saved_header();
  require(saved.size() >= sizeof head, call, ": the state must have at least ", sizeof head, " bytes, got ",
          saved.size());
  std::memcpy(&head, saved.data(), sizeof head);
  require(std::equal(head.magic, head.magic + sizeof head.magic, saved_header().magic), call,
          ": the state must begin with \"pistate\", got other bytes: pass what export_state returned");
  require(head.format == saved_header().format, call, ": the state must be of format ", saved_header().format - '0',
          ", got ", head.format - '0');
  auto const rest = saved.size() - sizeof head;
  require(head.word_bytes <= rest && head.state_bytes == rest - head.word_bytes, call, ": the state must have ",
          head.word_bytes, " + ", head.state_bytes, " bytes after its header, got ", rest);
  auto const sum = checksum_of_saved(saved);
  require(sum == head.checksum, call, ": the state is damaged: its checksum must be ", head.checksum, ", got ", sum);
  auto words = std::string_view(reinterpret_cast<char const*>(saved.data() + sizeof head), head.word_bytes);
  take_line(words);
  return {words, saved.subspan(sizeof head + head.word_bytes)};
}

/// The number of ranks in a line "rank R of N"; empty for other lines.
inline std::string_view ranks_in(std::string_view line) {
  auto const at = line.starts_with("rank ") ? line.find(" of ") : line.npos;
  return at == line.npos ? std::string_view() : line.substr(at);
}
/// Returns advice for an error message about a differing line.
inline char const* advice_for(std::string_view own, std::string_view saved) {
  auto const here = ranks_in(own), there = ranks_in(saved);
  return here.empty() || there.empty() || here == there ? ""
                                                        : ": reshard() converts states for another number of ranks";
}

/// Throws std::invalid_argument if the descriptions `own` and `saved` differ. The message contains the first line that
/// differs.
inline void require_words(char const* call, std::string_view own, std::string_view saved) {
  while (own != saved) {
    auto const here = take_line(own), there = take_line(saved);
    require(here == there, call, ": the state must be of ", here.empty() ? "no further line" : here.substr(0, 200),
            ", got one of ", there.empty() ? "no further line" : there.substr(0, 200), advice_for(here, there));
  }
}

/// Returns the values of the states in the result of `save_states`. Throws std::invalid_argument if the bytes are
/// damaged or have another format, or if their description is not `own_words`.
inline span<std::byte const> matching_states(char const* call, span<std::byte const> saved,
                                             std::string_view own_words) {
  auto const parts = open_states(call, saved);
  require_words(call, own_words, parts.words);
  return parts.states;
}

}  // namespace pith::inline PITH_ABI::detail
