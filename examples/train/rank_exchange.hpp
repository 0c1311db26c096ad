// examples/train/rank_exchange.hpp — what a rank does with its gradient in a step, on any executor.
#pragma once

#include <pith/exchange/traffic.hpp>

#include "stopwatch.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace train {

/// A step as its controller saw it: how many times fewer elements were sent (of gradiveq: bytes, of all tensors), and
/// which share of |p|^2, that is 1 - |p - sent|^2 / |p|^2.
struct decided_step {
  std::uint64_t step;
  double factor, gain, seconds;
};

class rank_exchange {
 public:
  virtual ~rank_exchange() = default;
  /// The mean of all ranks' gradients takes the gradient's place. Returns the time, compute aside.
  virtual phases all_reduce_mean(std::vector<float>& gradient) = 0;
  virtual pith::traffic bytes() const = 0;
  /// What a controller decided in each step but the last, or a schedule in each; nothing without one.
  virtual std::vector<decided_step> decided() const { return {}; }
};

}  // namespace train
