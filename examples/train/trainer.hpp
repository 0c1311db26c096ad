// examples/train/trainer.hpp — trains a network on ranks that are threads.
#pragma once

#include "worker.hpp"

#include <pith/comm/threads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace train {

/// The parameters after some steps.
struct snapshot {
  std::size_t steps;
  std::vector<float> parameters;
};

/// The result of a training: snapshots, the last one at the end, the mean time of a rank's step, and the total bytes of
/// a rank.
struct history {
  std::vector<snapshot> snapshots;
  phases mean;
  pith::traffic bytes{};
  std::vector<decided_step> decided = {};  ///< by a controller, if there is one

  std::vector<float> const& result() const { return snapshots.back().parameters; }
};

/// A snapshot is taken once per epoch, but at least twenty times.
inline std::size_t snapshot_interval(task const& job) {
  return std::max<std::size_t>(1, std::min(job.epoch(), job.steps / 20));
}

/// The results of one rank. Calls reached(steps) at each snapshot.
template <class Comm, class F>
history train_rank(task const& job, worker<Comm>& rank, F const& reached) {
  history seen;
  for (std::size_t done = 1; done <= job.steps; ++done) {
    seen.mean += rank.step();
    seen.bytes += rank.bytes();
    if (done % snapshot_interval(job) != 0 && done != job.steps) continue;
    seen.snapshots.push_back({done, rank.parameters()});
    reached(done);
  }
  seen.mean = seen.mean / static_cast<double>(job.steps);
  seen.decided = rank.decided();
  return seen;
}

/// All ranks must end with the same bits.
inline history merged(std::vector<history> const& ranks) {
  history all{ranks.front().snapshots, {}, ranks.front().bytes, ranks.front().decided};
  for (auto const& rank : ranks) {
    if (rank.result() != all.result()) throw std::logic_error("train: the ranks' parameters differ");
    all.mean += rank.mean / static_cast<double>(ranks.size());
  }
  return all;
}

/// Trains on `job.ranks` threads. Rank 0 calls reached(steps) at each snapshot.
template <class F>
history run(task const& job, std::string const& codec, std::uint64_t seed, F const& reached) {
  std::vector<history> ranks(job.ranks);
  pith::run_ranks(job.ranks, [&](pith::thread_communicator comm) {
    auto const rank = comm.rank();
    worker<pith::thread_communicator> member(job, codec, seed, comm);
    ranks[rank] = train_rank(job, member, [&](std::size_t steps) {
      if (rank == 0) reached(steps);
    });
  });
  return merged(ranks);
}

}  // namespace train
