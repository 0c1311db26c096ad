// pith/exchange/detail/backoff.hpp — the time between two polls of a transfer.
#pragma once

#include <pith/config.hpp>

#include <algorithm>
#include <chrono>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A sequence of sleep times between polls; next() returns the next sleep time. The first sleep times are short, so
/// that a short transfer is detected early. Later sleep times are longer. All sleep times are much shorter than the
/// time that a transport can send without a poll.
class backoff {
 public:
  using duration = std::chrono::microseconds;

  static constexpr unsigned patience = 200;  ///< polls before the sleep times grow
  static constexpr auto shortest = duration(50), longest = duration(500);

  duration next() {
    if (polls_ < patience) {
      ++polls_;
    } else {
      nap_ = std::min(nap_ + nap_ / 2, longest);
    }
    return nap_;
  }

 private:
  unsigned polls_ = 0;
  duration nap_ = shortest;
};

}}}  // namespace pith::PITH_ABI::detail
