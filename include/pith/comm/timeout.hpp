// pith/comm/timeout.hpp — the timeout of a communicator's calls, and the text of the timeout's error.
#pragma once

#include <pith/core/error.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A time above 0 s. With infinity, a call never times out.
using timeout_duration = std::chrono::duration<double>;

/// The default `timeout` of every communicator.
constexpr timeout_duration default_timeout = std::chrono::minutes(30);

namespace detail {

inline void require_timeout(char const* call, timeout_duration timeout) {
  require(timeout.count() > 0, call, ": timeout must be above 0 s, got ", timeout.count(), " s");
}

/// Converts the ranks for which a call waits to text for an error message. If the list is empty, the ranks are unknown.
/// The text begins with the most common cause, which is a rank with fewer batches than the others.
inline std::string gone_or_stuck(std::vector<unsigned> const& ranks) {
  auto const several = ranks.size() > 1;
  auto words = ranks.empty() ? std::string("a rank") : text(several ? "ranks " : "rank ", ranks[0]);
  for (std::size_t i = 1; i < ranks.size(); ++i) words += text(", ", ranks[i]);
  return words + (several ? " have run out of batches, or are" : " has run out of batches, or is") +
         " gone or stuck: give all ranks equally many batches";
}

}  // namespace detail
}}  // namespace pith::PITH_ABI
