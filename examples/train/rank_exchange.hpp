// examples/train/rank_exchange.hpp — the exchange of a rank's gradient in a step, on any executor.
#pragma once

#include <pith/exchange/traffic.hpp>

#include "stopwatch.hpp"
#include "traced_controller.hpp"

#include <vector>

namespace train {

class rank_exchange {
 public:
  virtual ~rank_exchange() = default;
  /// Replaces the gradient by the mean of all ranks. Returns the time without that of computing.
  virtual phases all_reduce_mean(std::vector<float>& gradient) = 0;
  virtual pith::traffic bytes() const = 0;
  /// The decisions of a controller in each step but the last, or of a schedule in each; otherwise empty.
  virtual std::vector<decided_step> decided() const { return {}; }
};

}  // namespace train
