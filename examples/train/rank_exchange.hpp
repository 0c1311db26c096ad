// examples/train/rank_exchange.hpp — what a rank does with its gradient in a step, on any executor.
#pragma once

#include "stopwatch.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace train {

/// The bytes that a rank hands over in a step.
struct traffic {
  std::size_t gathered, summed, scattered = 0, passed = 0;

  std::size_t payload() const { return gathered + summed + scattered + passed; }

  traffic& operator+=(traffic const& other) {
    gathered += other.gathered;
    summed += other.summed;
    scattered += other.scattered;
    passed += other.passed;
    return *this;
  }
  traffic operator/(std::size_t n) const { return {gathered / n, summed / n, scattered / n, passed / n}; }

  /// Those that it sends: a gathered byte to all others, a summed one twice around the ring, a scattered one to its rank,
  /// a passed one as it is.
  double sent(unsigned ranks) const {
    auto const others = ranks - 1.0;
    return others * static_cast<double>(gathered) + others / ranks * static_cast<double>(2 * summed + scattered) +
           static_cast<double>(passed);
  }
};

template <class Exchange>
traffic traffic_of(Exchange const& e) {
  return {e.gathered_bytes(), e.summed_bytes(), e.scattered_bytes(), e.passed_bytes()};
}

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
  virtual traffic bytes() const = 0;
  /// What a controller decided in each step but the last, or a schedule in each; nothing without one.
  virtual std::vector<decided_step> decided() const { return {}; }
};

}  // namespace train
