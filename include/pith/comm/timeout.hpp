// pith/comm/timeout.hpp — the timeout of a communicator's calls, and the text of the timeout's error.
#pragma once

#include <pith/core/error.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace pith::inline PITH_ABI {

/// A time above 0 s. With infinity, a call waits until the other ranks make the same call or leave.
using timeout_duration = std::chrono::duration<double>;

/// The default `timeout` of every communicator.
constexpr timeout_duration default_timeout = std::chrono::minutes(30);

namespace detail {

inline void require_timeout(char const* whose, timeout_duration timeout) {
  require(timeout.count() > 0, whose, ": timeout must be above 0 s, got ", timeout.count(), " s");
}

/// Converts the ranks for which a call waits to text for an error message. If the list is empty, the ranks are unknown.
inline std::string gone_or_stuck(std::vector<unsigned> const& ranks) {
  if (ranks.empty()) return "a rank is gone or stuck";
  if (ranks.size() == 1) return text("rank ", ranks[0], " is gone or stuck");
  auto words = text("ranks ", ranks[0]);
  for (auto next = ranks.begin() + 1; next != ranks.end(); ++next) words += text(", ", *next);
  return words + " are gone or stuck";
}

}  // namespace detail
}  // namespace pith::inline PITH_ABI
