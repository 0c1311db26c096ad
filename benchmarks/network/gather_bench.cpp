// benchmarks/network/gather_bench.cpp — steps in the three modes of pith::gather, which alternate.
//
//   mpirun -n 4 gather_bench [STEPS [pairwise]]
//
// Prints rows of a Markdown table: the codec; whether the gradients grow by 4 % per step; for each mode, the KB that a
// rank passes to all-gathers, and the median of the slowest rank's milliseconds; the time with gather::predicted over
// the shorter of the other two; the nonzero means with gather::predicted over those with gather::exact. The gradients
// are 4 MB of floats with lognormal magnitudes: 1 % of these are above 100.
#include "../../examples/train/statistics.hpp"

#include <pith/comm/any_communicator.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/redsync.hpp>
#include <pith/sparsify/sidco.hpp>
#include <pith/sparsify/threshold.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using codec = pith::any_codec<float, pith::seq_executor>;
using exchange = pith::gradient_exchange<float, pith::seq_executor, pith::any_communicator>;

constexpr int warm_up = 4;

/// Sizes as in a convolutional network: the last layers are the largest.
std::vector<pith::tensor_spec> model() {
  auto all = std::vector<pith::tensor_spec>();
  for (auto const percent : {1u, 2u, 4u, 8u, 10u, 15u, 25u, 25u, 10u})
    all.push_back({std::to_string(all.size()), {percent * 10000}});
  return all;
}

float heavy(std::mt19937& random) {
  auto normal = std::normal_distribution<float>();
  auto const magnitude = std::exp(2 * normal(random));
  return random() % 2 == 0 ? magnitude : -magnitude;
}

/// Half a part that all ranks share, and a part of each rank.
std::vector<float> gradients_of(std::size_t n, unsigned rank) {
  auto shared = std::mt19937(7), own = std::mt19937(100 + rank);
  auto g = std::vector<float>(n);
  for (auto& x : g) x = 0.5f * heavy(shared) + heavy(own);
  return g;
}

/// A mode with the results of its steps.
struct contender {
  std::unique_ptr<exchange> averages;
  std::vector<double> seconds = {};
  double bytes = 0, entries = 0;

  void step(std::vector<float> g, bool counts) {
    MPI_Barrier(MPI_COMM_WORLD);
    auto time = MPI_Wtime();
    averages->all_reduce_mean(pith::span(g));
    time = MPI_Wtime() - time;
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (!counts) return;
    seconds.push_back(time);
    bytes += static_cast<double>(averages->traffic().gathered);
    entries += static_cast<double>(g.size() - static_cast<std::size_t>(std::count(g.begin(), g.end(), 0.0f)));
  }
  double milliseconds() const { return 1e3 * train::median(seconds); }
  double kilobytes() const { return bytes / 1e3 / static_cast<double>(seconds.size()); }
};

/// The gradients of step t: each step shifts them by another offset, so that their order does not recur.
std::vector<float> shifted(std::vector<float> g, int t, float scale) {
  auto const by = static_cast<std::ptrdiff_t>(std::uint64_t{777'777} * static_cast<unsigned>(t) % g.size());
  std::rotate(g.begin(), g.begin() + by, g.end());
  for (auto& x : g) x *= scale;
  return g;
}

void race(std::vector<contender>& all, std::vector<float> const& g, int steps, float growth) {
  auto scale = 1.0f;
  for (int t = 0; t < warm_up + steps; ++t) {
    if (t >= warm_up) scale *= growth;
    for (std::size_t i = 0; i < all.size(); ++i)
      all[(i + static_cast<std::size_t>(t)) % all.size()].step(shifted(g, t, scale), t >= warm_up);
  }
}

void print(codec const& c, float growth, std::vector<contender> const& all) {
  fmt::print("| `{}` | {} |", c.name(), growth > 1 ? "grow" : "steady");
  for (auto const& m : all) fmt::print(" {:.0f} KB, {:.3g} ms |", m.kilobytes(), m.milliseconds());
  auto const other = std::min(all[0].milliseconds(), all[1].milliseconds());
  fmt::print(" {:.2f} | {:.2f} |\n", all[2].milliseconds() / other, all[2].entries / all[0].entries);
  std::fflush(stdout);
}

void measure(pith::any_communicator& comm, codec const& c, int steps, float growth) {
  auto const tensors = model();
  auto all = std::vector<contender>();
  for (auto const how : {pith::gather::exact, pith::gather::padded, pith::gather::predicted}) {
    auto const options = pith::exchange_options{.gather_mode = how};
    all.push_back({std::make_unique<exchange>(pith::seq, comm, tensors, c, options)});
  }
  race(all, gradients_of(all[0].averages->size(), comm.rank()), steps, growth);
  if (comm.rank() == 0) print(c, growth, all);
}

void measure_all(pith::any_communicator comm, int steps) {
  auto const fed = [](auto const& stage) { return codec(pith::error_feedback(stage)); };
  for (auto const& c : {fed(pith::threshold(100)), fed(pith::threshold(100, 0.05)), fed(pith::threshold(480, 0.005)),
                        fed(pith::sidco(0.01)), fed(pith::redsync(0.01)), fed(pith::gaussian_k(0.01))}) {
    for (auto const growth : {1.0f, 1.04f}) measure(comm, c, steps, growth);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto const steps = std::max(argc > 1 ? std::atoi(argv[1]) : 15, 1);
  auto const is_pairwise = argc > 2 && std::string(argv[2]) == "pairwise";
  using pairs = pith::pairwise<pith::mpi_communicator>;
  if (is_pairwise)
    measure_all(pith::any_communicator::owning([] { return pairs(MPI_COMM_WORLD); }), steps);
  else
    measure_all(pith::any_communicator::owning([] { return pith::mpi_communicator(MPI_COMM_WORLD); }), steps);
  MPI_Finalize();
}
