// pith/comm/detail/backoff.hpp — how long a thread leaves a transfer alone between two polls.
#pragma once

#include <algorithm>
#include <chrono>

namespace pith::inline v0::detail {

/// Naps that begin short, since short transfers have arrived by the time they grow, and that stay short beside the time
/// which a transport can fill without being polled.
class backoff {
 public:
  using duration = std::chrono::microseconds;

  static constexpr unsigned patience = 200;  ///< polls before naps grow
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

}  // namespace pith::inline v0::detail
