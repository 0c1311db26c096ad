// pith/comm/timeout.hpp — how long a call of a communicator waits for other ranks, and what its error says of them.
#pragma once

#include <pith/core/error.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace pith::inline v0 {

using timeout_duration = std::chrono::duration<double>;

/// The `timeout` of every communicator's options, unless said otherwise.
constexpr timeout_duration default_timeout = std::chrono::minutes(30);

namespace detail {

inline void require_timeout(char const* whose, timeout_duration timeout) {
  require(timeout.count() > 0, whose, ": timeout must be above 0 s, got ", timeout.count(), " s");
}

/// Of the ranks that a call waits for, in words; of none where it is not known which they are.
inline std::string gone_or_stuck(std::vector<unsigned> const& ranks) {
  if (ranks.empty()) return "a rank is gone or stuck";
  if (ranks.size() == 1) return text("rank ", ranks[0], " is gone or stuck");
  auto words = text("ranks ", ranks[0]);
  for (auto next = ranks.begin() + 1; next != ranks.end(); ++next) words += text(", ", *next);
  return words + " are gone or stuck";
}

}  // namespace detail
}  // namespace pith::inline v0
