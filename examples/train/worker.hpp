// examples/train/worker.hpp — one rank of the training: gradient, exchange, descent.
#pragma once

#include "exchange.hpp"
#include "network.hpp"
#include "sgd.hpp"
#include "stopwatch.hpp"

#include <pith/comm/communicator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace train {

/// What is the same for all codecs.
struct task {
  split data;
  network net;
  unsigned ranks;
  std::size_t steps, batch;  // of images for each rank
  float learning_rate, momentum;
  pith::gather how = pith::gather::padded;

  /// The steps of an epoch.
  std::size_t epoch() const { return data.train.size() / (ranks * batch); }
  double epochs(std::size_t n_steps) const {
    return static_cast<double>(n_steps * ranks * batch) / static_cast<double>(data.train.size());
  }
};

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

inline bool is_compressed(pith::tensor_spec const& tensor) { return tensor.dims.rows > 1; }

/// The share of the parameters that are compressed.
inline double compressed_share(network const& net) {
  std::size_t n = 0;
  for (auto const& tensor : specs(net)) n += is_compressed(tensor) ? tensor.dims.n : 0;
  return static_cast<double>(n) / static_cast<double>(net.size());
}

/// A rank, which learns from its share of the images and from the others by its communicator. One seed for all: the
/// first parameters, the order of the images and the codec's random numbers.
template <class Comm>
class worker {
 public:
  worker(task const& job, std::string const& codec, std::uint64_t seed, Comm comm)
      : net_(job.net),
        sampler_(job.data.train, comm.rank(), comm.size(), job.batch, seed),
        descent_(net_.size(), job.learning_rate, job.momentum),
        parameters_(initial_parameters(net_, seed)),
        gradient_(net_.size()),
        comm_(std::move(comm)),
        exchange_(comm_, net_, codec, job.steps, std::max<std::size_t>(1, job.epoch()),
                  {.seed = seed, .how = job.how}) {}

  worker(worker const&) = delete;  // exchange_ has the address of comm_
  worker& operator=(worker const&) = delete;

  phases step() {
    auto const& batch = sampler_.at(step_++);
    stopwatch watch;
    net_.gradient(batch.pixels(), batch.labels, parameters_, gradient_);
    auto const compute = watch.lap();
    auto spent = comm_.of([&] { exchange_.all_reduce_mean(gradient_); });
    descent_.step(parameters_, gradient_);
    spent.compute = compute;
    return spent;
  }

  std::vector<float> const& parameters() const { return parameters_; }
  traffic bytes() const {
    auto const& exchange = exchange_.of();
    return {exchange.gathered_bytes(), exchange.summed_bytes(), exchange.scattered_bytes(), exchange.passed_bytes()};
  }
  std::vector<decided_step> decided() const { return exchange_.decided(); }

 private:
  network net_;
  sampler sampler_;
  sgd descent_;
  std::vector<float> parameters_, gradient_;
  stopwatch_communicator<Comm> comm_;
  any_exchange<stopwatch_communicator<Comm>> exchange_;
  std::size_t step_ = 0;
};

}  // namespace train
