// benchmarks/network/measure.hpp — a step of a method, the same bytes by MPI alone, and its codec alone, side by side.
#pragma once

#include "interface.hpp"
#include "methods.hpp"
#include "plain.hpp"
#include "replay.hpp"
#include "workloads.hpp"

#include "../../examples/train/statistics.hpp"
#include "../../examples/train/stopwatch.hpp"
#include "../../examples/train/worker.hpp"

#include <pith/comm/any_communicator.hpp>
#include <pith/exchange/gradient_exchange.hpp>

#include <range/v3/view/zip.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace network {

/// Seconds of the slowest rank, medians over the steps; bytes that all ranks send per step.
struct measured {
  std::size_t steps;
  double step, plain, encode, decode;
  double handed, sent, plain_sent;
};

inline double all_reduced(double x, MPI_Op op) {
  MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
  return x;
}

/// The clock that the ranks of one machine share.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The time of f on the slowest rank, with a common start, and the bytes sent through all ranks' interfaces.
struct timed_step {
  double seconds, sent;
};
template <class F>
timed_step timed(interface const& link, F const& f) {
  MPI_Barrier(MPI_COMM_WORLD);
  auto const before = link.sent_bytes();
  auto watch = train::stopwatch();
  f();
  auto const seconds = watch.lap();
  MPI_Barrier(MPI_COMM_WORLD);
  auto const sent = link.sent_bytes() - before;
  return {all_reduced(seconds, MPI_MAX), all_reduced(sent, MPI_SUM)};
}

/// Normal values, different ones on each rank.
inline std::vector<float> gradient_of(std::size_t n, unsigned rank) {
  auto random = std::mt19937(1 + rank);
  auto draw = std::normal_distribution<float>();
  auto x = std::vector<float>(n);
  for (auto& v : x) v = draw(random);
  return x;
}

/// A method on a workload.
class subject {
 public:
  subject(pith::any_communicator& comm, tensors const& all, std::string const& codec, std::vector<float> const& values)
      : exchange_(pith::seq, comm, all, policy_of(codec)),
        alone_comm_(replaying_communicator(MPI_COMM_WORLD)),
        alone_(pith::seq, alone_comm_, all, policy_of(codec)),
        values_(&values),
        plain_(noted_step()) {}

  timed_step step(interface const& link) {
    gradient_ = *values_;
    return timed(link, [&] { exchange_.all_reduce_mean(gradient_); });
  }
  timed_step plain(interface const& link) {
    return timed(link, [&] { plain_.run(); });
  }
  /// Runs all ranks at once, as in a step, since they share cores. The time from the first start to the last end, which
  /// includes waiting for a core, is divided in proportion to the phases of each rank.
  train::phases alone() {
    gradient_ = *values_;
    alone_comm_.watched().replay();
    MPI_Barrier(MPI_COMM_WORLD);
    auto const begin = seconds_now();
    auto const mine = alone_comm_.of([&] { alone_.all_reduce_mean(gradient_); });
    auto const end = seconds_now();
    auto const passed = all_reduced(end, MPI_MAX) - all_reduced(begin, MPI_MIN);
    auto const spent = all_reduced(mine.encode + mine.exchange + mine.decode, MPI_SUM);
    auto const share = [&](double phase) { return passed * all_reduced(phase, MPI_SUM) / spent; };
    return {0, share(mine.encode), 0, share(mine.decode)};
  }
  /// A transfer between two ranks goes to one other rank, not to all.
  double handed_bytes(unsigned ranks) const {
    auto const all = exchange_.traffic();
    auto bytes = all.sent(ranks);
    for (auto const stride : {1u, 2u}) {
      auto const two = traffic_among({2, stride});
      bytes += two.sent(2) - two.sent(ranks);
    }
    return bytes;
  }

 private:
  using alone_communicator = train::stopwatch_communicator<replaying_communicator>;

  /// Without swaps and shifts, which go to one rank in any group.
  pith::traffic traffic_among(pith::subgroup const& group) const {
    auto bytes = exchange_.traffic(group);
    bytes.passed = 0;
    return bytes;
  }

  notes noted_step() {
    gradient_ = *values_;
    alone_comm_.watched().record();
    alone_.all_reduce_mean(gradient_);
    return alone_comm_.watched().noted();
  }

  pith::gradient_exchange<float, pith::seq_executor, pith::any_communicator> exchange_;
  alone_communicator alone_comm_;
  pith::gradient_exchange<float, pith::seq_executor, alone_communicator> alone_;
  std::vector<float> const* values_;
  std::vector<float> gradient_;
  plain_exchange plain_;
};

/// At least three steps, and up to 15 as the seconds permit.
inline std::size_t steps_for(double seconds, timed_step const& first) {
  return std::clamp<std::size_t>(static_cast<std::size_t>(seconds / (2 * first.seconds)), 3, 15);
}

inline measured measure(pith::any_communicator& comm, interface const& link, tensors const& all,
                        std::string const& codec, std::vector<float> const& values, double seconds) {
  auto s = subject(comm, all, codec, values);
  auto const first = s.step(link);
  auto const steps = steps_for(seconds, first);
  auto each = std::vector<std::vector<double>>(6);
  for (std::size_t i = 0; i < steps; ++i) {
    auto const idle = timed(link, [] {}).sent;
    auto const step = s.step(link), plain = s.plain(link);
    s.alone();  // memory that was idle during transfers may be out of the caches
    auto const codec_alone = s.alone();
    auto const now = std::array{step.seconds,       plain.seconds,    codec_alone.encode,
                                codec_alone.decode, step.sent - idle, plain.sent - idle};
    for (auto&& [all_steps, one] : ranges::views::zip(each, now)) all_steps.push_back(one);
  }
  auto const of = [&](std::size_t i) { return train::median(each[i]); };
  return {steps, of(0), of(1), of(2), of(3), s.handed_bytes(comm.size()) * comm.size(), of(4), of(5)};
}

}  // namespace network
