// examples/language/training.hpp — four ranks inside one process, joined by links of a rate, train the model.
#pragma once

#include "adam.hpp"
#include "lstm.hpp"
#include "text.hpp"

#include <pith/comm/shaped.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

namespace language {

/// The settings that all codecs share.
struct task {
  text data;
  lstm model;
  unsigned ranks;
  std::size_t steps, sequences, length;  ///< sequences per rank and step
  float learning_rate;
  pith::link_shape link;
};

/// The parameters after some steps.
struct snapshot {
  double seconds;
  std::vector<float> parameters;
};

struct history {
  std::vector<snapshot> snapshots;
  double sent = 0;  ///< bytes that leave a rank per step
};

/// One rank: its share of the text, and its communicator.
class worker {
 public:
  worker(task const& job, pith::any_codec<float> const& codec, std::uint64_t seed, pith::thread_communicator ranks)
      : job_(job),
        model_(job.model),
        random_(seed * job.ranks + ranks.rank()),
        descent_(model_.size(), job.learning_rate),
        parameters_(model_.initial_parameters(seed)),
        gradient_(parameters_.size()),
        comm_(job.link, ranks),
        exchange_(pith::seq, comm_, model_.specs(), pith::matrices(codec), {.seed = seed}) {}

  void step() {
    auto const x = sample(job_.data.training(), job_.sequences, job_.length, random_);
    model_.gradient(x, parameters_, gradient_);
    exchange_.all_reduce_mean(gradient_);
    descent_.step(parameters_, gradient_);
  }

  std::vector<float> const& parameters() const { return parameters_; }
  double sent() const { return exchange_.report().total.wire_bytes; }

 private:
  using communicator = pith::shaped<pith::thread_communicator>;

  task const& job_;
  lstm model_;
  std::mt19937_64 random_;
  adam descent_;
  std::vector<float> parameters_, gradient_;
  communicator comm_;
  pith::gradient_exchange<float, pith::seq_executor, communicator> exchange_;
};

/// The history of one rank, with a snapshot before the first step, and one after every tenth of the steps. Calls
/// reached(steps) after each step.
template <class F>
history train_rank(task const& job, worker& rank, F const& reached) {
  using clock = std::chrono::steady_clock;
  auto seen = history();
  auto const begun = clock::now();
  for (std::size_t done = 0; done <= job.steps; ++done) {
    if (done > 0) rank.step();
    reached(done);
    if (done * 10 % job.steps >= 10 && done != job.steps) continue;
    seen.snapshots.push_back({std::chrono::duration<double>(clock::now() - begun).count(), rank.parameters()});
  }
  seen.sent = rank.sent();
  return seen;
}

/// Trains with one codec. Rank 0 calls reached(steps). All ranks must end with the same bits.
template <class F>
history train(task const& job, pith::any_codec<float> const& codec, std::uint64_t seed, F const& reached) {
  auto ranks = std::vector<history>(job.ranks);
  pith::run_ranks(job.ranks, [&](pith::thread_communicator comm) {
    auto member = worker(job, codec, seed, comm);
    ranks[comm.rank()] = train_rank(job, member, [&](std::size_t steps) {
      if (comm.rank() == 0) reached(steps);
    });
  });
  for (auto const& rank : ranks) {
    if (rank.snapshots.back().parameters != ranks[0].snapshots.back().parameters)
      throw std::logic_error("language: the ranks' parameters differ");
  }
  return ranks[0];
}

}  // namespace language
