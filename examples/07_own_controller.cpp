// examples/07_own_controller.cpp — a user-defined controller: the fewest values with half of the gradient's energy.
//
//   step   1: density 1.0000,     0 bytes gathered and 40000 summed
//   step 100: density 0.1250,  7192 bytes gathered and     0 summed
//   step 200: density 0.1250,  7192 bytes gathered and     0 summed
//   step 300: density 0.1250,  7192 bytes gathered and     0 summed
//
// After each step all ranks have the same report of the kept energy, and so choose the same density for the next step.
#include <pith/codec/rated.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/pith.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

/// Halves the density if more than half of the energy is kept, and doubles it otherwise.
class keep_half {
 public:
  std::string name() const { return "keep_half"; }
  void observe(pith::step_report const& seen) {
    double all = 0, kept = 0;
    for (auto const& r : seen.tensors) all += r.energy, kept += r.kept;
    if (!std::isfinite(kept)) return;  // the report includes a NaN of any rank
    density_ = kept > all / 2 ? std::max(density_ / 2, 1.0 / 1024) : std::min(density_ * 2, 1.0);
  }
  double decide(std::uint64_t, std::uint32_t) const { return density_; }
  pith::rate_list measures(std::uint64_t, std::uint32_t) const { return {density_}; }

  std::vector<std::byte> save() const { return pith::saved_bytes(&density_, 1); }
  void load(pith::span<std::byte const> saved) { density_ = pith::loaded_values<double>("keep_half", saved).at(0); }

 private:
  double density_ = 1;
};

/// The target of rank r is w_i = c_i + r. Few c_i are large.
float target(std::size_t i, unsigned rank) {
  return 100 * std::pow(std::sin(static_cast<float>(i)), 31.0f) + static_cast<float>(rank);
}

void train(pith::thread_communicator comm) {
  auto const codec = pith::error_feedback(pith::rated(pith::top_k(0.1)));
  auto exchange =
      pith::make_adaptive_exchange<float>(pith::seq, comm, {{"weight", pith::matrix(100, 100)}}, codec, keep_half());
  auto w = std::vector<float>(exchange.size()), gradient = w;
  for (int step = 1; step <= 300; ++step) {
    for (std::size_t i = 0; i < w.size(); ++i) gradient[i] = w[i] - target(i, comm.rank());
    exchange.all_reduce_mean(gradient);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.02f * gradient[i];
    if (comm.rank() != 0 || (step != 1 && step % 100 != 0)) continue;
    auto const density = exchange.controller().decide(exchange.steps(), 0);
    std::printf("step %3d: density %.4f, %5zu bytes gathered and %5zu summed\n", step, density,
                exchange.exchange().traffic().gathered, exchange.exchange().traffic().summed);
  }
}

}  // namespace

int main() { pith::run_ranks(4, train); }
