// examples/08_checkpoint.cpp — saves states, resumes with fewer ranks, and resumes after the loss of a rank.
//
//   4 ranks: |w - w*| = 8.50, |mean residual| = 106.32
//   3 ranks: |w - w*| = 8.50, |mean residual| = 106.32
//   3 ranks: |w - w*| = 0.77, |mean residual| = 22.07
//   2 ranks: |w - w*| = 0.06, |mean residual| = 1.75
//
// The ranks are threads. Of N ranks, rank r has every N-th element of w.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/pith.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

/// The weights, equal on all ranks, and the saved state of each rank.
struct checkpoint {
  std::vector<float> weights = std::vector<float>(10'000);
  std::vector<std::vector<std::byte>> states = {};
};

std::string file_of(std::size_t rank) { return "08_checkpoint_of_rank_" + std::to_string(rank); }
void save(checkpoint const& of) {
  for (std::size_t rank = 0; rank < of.states.size(); ++rank) {
    auto const& state = of.states[rank];
    std::ofstream(file_of(rank), std::ios::binary)
        .write(reinterpret_cast<char const*>(state.data()), static_cast<std::streamsize>(state.size()));
  }
}
std::vector<std::byte> load(std::size_t rank) {
  auto file = std::ifstream(file_of(rank), std::ios::binary);
  auto state = std::vector<std::byte>();
  for (auto at = std::istreambuf_iterator<char>(file); at != std::istreambuf_iterator<char>(); ++at)
    state.push_back(static_cast<std::byte>(*at));
  return state;
}

float target(std::size_t i) { return std::sin(static_cast<float>(i)); }

void print(checkpoint const& of, std::vector<double> const& residual) {
  double distance = 0, rest = 0;
  for (std::size_t i = 0; i < of.weights.size(); ++i) distance += std::pow(of.weights[i] - target(i), 2);
  for (auto const x : residual) rest += x * x;
  std::printf("%zu ranks: |w - w*| = %.2f, |mean residual| = %.2f\n", of.states.size(), std::sqrt(distance),
              std::sqrt(rest));
}

/// Continues a checkpoint with one rank per state in it, and prints the result.
void train(checkpoint& job, int steps) {
  auto const begin = job;
  auto const ranks = static_cast<unsigned>(begin.states.size());
  auto residuals = std::vector<std::vector<float>>(ranks);
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto const codec = pith::error_feedback(pith::top_k(0.01));
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"weight", pith::matrix(100, 100)}}, codec);
    auto w = begin.weights, gradient = w;
    if (!begin.states[comm.rank()].empty()) exchange.import_state(begin.states[comm.rank()]);
    for (int step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < w.size(); ++i)
        gradient[i] = i % ranks == comm.rank() ? static_cast<float>(ranks) * (w[i] - target(i)) : 0;
      exchange.all_reduce_mean(gradient);
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.01f * gradient[i];
    }
    job.states[comm.rank()] = exchange.export_state();
    residuals[comm.rank()] = exchange.fed_back(0);
    if (comm.rank() == 0) job.weights = w;
  });
  auto mean = std::vector<double>(job.weights.size());
  for (auto const& own : residuals)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += own[i] / static_cast<double>(ranks);
  print(job, mean);
}

}  // namespace

int main() {
  auto job = checkpoint();
  job.states.resize(4);
  train(job, 200);
  save(job);

  for (std::size_t rank = 0; rank < 4; ++rank) job.states[rank] = load(rank);
  job.states = pith::reshard(job.states, 3);
  train(job, 0);  // the mean residual is unchanged
  train(job, 200);

  job.states.erase(job.states.begin() + 1);  // rank 1 is lost, with its residual
  job.states = pith::reshard(job.states, 2);
  train(job, 200);
}
