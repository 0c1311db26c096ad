// examples/train/worker.hpp — one rank of the training: gradient, exchange, descent.
#pragma once

#include "exchange.hpp"
#include "executors.hpp"
#include "network.hpp"
#include "rank_exchange.hpp"
#include "sgd.hpp"
#include "stopwatch.hpp"

#include <pith/comm/communicator.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace train {

/// The settings that all codecs share.
struct task {
  split data;
  network net;
  unsigned ranks;
  std::size_t steps, batch;  // of images for each rank
  float learning_rate, momentum;
  pith::gather gather_mode = pith::gather::padded;
  std::string executor = "seq";

  /// The steps of an epoch.
  std::size_t epoch() const { return data.train.size() / (ranks * batch); }
  double epochs(std::size_t n_steps) const {
    return static_cast<double>(n_steps * ranks * batch) / static_cast<double>(data.train.size());
  }
};

inline bool is_compressed(pith::tensor_spec const& tensor) { return tensor.dims.rows > 1; }

/// The share of the parameters that are compressed.
inline double compressed_share(network const& net) {
  std::size_t n = 0;
  for (auto const& tensor : specs(net)) n += is_compressed(tensor) ? tensor.dims.n : 0;
  return static_cast<double>(n) / static_cast<double>(net.size());
}

/// One rank: its share of the images, and its communicator. One seed determines the initial parameters, the order of
/// the images and the codec's random numbers.
template <class Comm>
class worker {
 public:
  worker(task const& job, std::string const& codec, std::uint64_t seed, Comm comm)
      : net_(job.net),
        sampler_(job.data.train, comm.rank(), comm.size(), job.batch, seed),
        descent_(net_.size(), job.learning_rate, job.momentum),
        parameters_(initial_parameters(net_, seed)),
        gradient_(net_.size()),
        exchange_(made_exchange(job, codec, {.seed = seed, .gather_mode = job.gather_mode}, std::move(comm))) {}

  phases step() {
    auto const& batch = sampler_.at(step_++);
    stopwatch watch;
    net_.gradient(batch.pixels, batch.labels, parameters_, gradient_);
    auto const compute = watch.lap();
    auto spent = exchange_->all_reduce_mean(gradient_);
    descent_.step(parameters_, gradient_);
    spent.compute = compute;
    return spent;
  }

  std::vector<float> const& parameters() const { return parameters_; }
  pith::traffic bytes() const { return exchange_->bytes(); }
  std::vector<decided_step> decided() const { return exchange_->decided(); }

 private:
  /// Predictions with an echo_communicator support only seq.
  static std::unique_ptr<rank_exchange> made_exchange(task const& job, std::string const& codec,
                                                      pith::exchange_options const& options, Comm comm) {
    if constexpr (std::same_as<Comm, pith::thread_communicator>) {
      if (job.executor != "seq") return exchange_on(job.executor, {comm, specs(job.net), codec, options});
    }
    return exchange_on_seq(std::move(comm), job.net, codec, job.steps, std::max<std::size_t>(1, job.epoch()), options);
  }

  network net_;
  sampler sampler_;
  sgd descent_;
  std::vector<float> parameters_, gradient_;
  std::unique_ptr<rank_exchange> exchange_;
  std::size_t step_ = 0;
};

}  // namespace train
