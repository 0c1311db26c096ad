// gradiveq_averaging.hpp — averages gradients with pith::gradiveq, which compresses those of convolutions.
#pragma once

#include "averaging.hpp"

#include <pith/adaptor/identity.hpp>
#include <pith/control/gradiveq.hpp>
#include <pith/executors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <stdexcept>
#include <vector>

namespace pith_libtorch {

/// The convolutions of a model, whose weights are (filters, depth, height, width).
inline std::vector<pith::gradiveq_tensor> convolutions(named_tensors const& of) {
  auto all = std::vector<pith::gradiveq_tensor>();
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (of[i].value().dim() != 4) continue;
    auto const size = [&](int d) { return static_cast<std::uint64_t>(of[i].value().size(d)); };
    all.push_back({i, {size(0), size(1), size(2), size(3)}});
  }
  if (all.empty()) throw std::invalid_argument("--controller: gradiveq needs a model with convolutions");
  return all;
}

/// The paper's proportions, shortened: 1, 1 and 4 eighteenths of the training, which has about three periods.
inline pith::gradiveq_options phases_of(std::int64_t steps) {
  auto const unit = static_cast<std::uint64_t>(std::max<std::int64_t>(2, steps / 18));
  return {.warm_up = unit,
          .samples = unit,
          .compressed = 4 * unit,
          .basis = {.lambda = 0.05},
          .first_losses = std::min<std::uint64_t>(20, 2 * unit)};
}

/// The exchange follows backward, since the schedule measures the loss of each compressed step.
class gradiveq_averaging final : public averaging {
 public:
  gradiveq_averaging(pith::any_communicator& comm, place at, named_tensors const& of, std::int64_t steps,
                     pith::exchange_options const& options)
      : at_(at),
        gradients_(lay_flat(of.values())),
        exchange_(
            pith::seq, comm, specs(of), [](auto const&) { return pith::identity(); }, options),
        schedule_(pith::seq, comm, exchange_, convolutions(of), phases_of(steps)) {}

  void zero_grad() override { gradients_.zero_(); }
  void backward(torch::Tensor const& loss) override {
    loss.backward();
    decided_.push_back({schedule_.phase(), 0});
    sent_bytes_ = exchange_.traffic().sent(static_cast<unsigned>(at_.ranks));
    schedule_.all_reduce_mean({gradients_.data_ptr<float>(), exchange_.size()});
    if (decided_.back().phase == pith::gradiveq_phase::compressed) decided_.back().loss = schedule_.loss();
  }

  double sent_bytes() const override { return sent_bytes_; }
  void report(std::ostream& out, pith::report_labels const& labels) const override {
    pith::write_lines(out, exchange_.report(), labels);
  }
  /// Writes a line per step of this run: the phase, and rank 0's loss of a compressed step.
  void write_decisions(std::filesystem::path const& path) const override {
    constexpr auto names = std::array{"warm_up", "sampling", "compressed"};
    auto* const file = std::fopen(path.c_str(), "w");
    if (!file) throw std::invalid_argument(fmt::format("--decisions: cannot write {}", path.string()));
    fmt::print(file, "step,phase,loss\n");
    for (std::size_t i = 0; i < decided_.size(); ++i)
      fmt::print(file, "{},{},{:.6f}\n", i + 1, names[static_cast<std::size_t>(decided_[i].phase)], decided_[i].loss);
    std::fclose(file);
  }

  /// The state of the schedule after its size, and that of the exchange.
  std::vector<std::byte> export_state() override {
    auto const schedule = schedule_.export_state(), exchange = exchange_.export_state();
    auto const size = static_cast<std::uint64_t>(schedule.size());
    auto all = std::vector<std::byte>(sizeof size);
    std::memcpy(all.data(), &size, sizeof size);
    all.insert(all.end(), schedule.begin(), schedule.end());
    all.insert(all.end(), exchange.begin(), exchange.end());
    return all;
  }
  void import_states(std::vector<std::vector<std::byte>> const& states) override {
    if (states.size() != static_cast<std::size_t>(at_.ranks))
      throw std::invalid_argument(
          fmt::format("--resume: gradiveq needs the state of {} ranks, got {}", at_.ranks, states.size()));
    auto const& mine = states[static_cast<std::size_t>(at_.rank)];
    std::uint64_t size = 0;
    if (mine.size() >= sizeof size) std::memcpy(&size, mine.data(), sizeof size);
    if (mine.size() < sizeof size || size > mine.size() - sizeof size)
      throw std::invalid_argument("--resume: the state of gradiveq is cut");
    auto const first = mine.data() + sizeof size;
    schedule_.import_state({first, size}, {first + size, mine.size() - sizeof size - size});
  }

 private:
  struct decided {
    pith::gradiveq_phase phase;
    double loss;
  };
  using exchange_type = pith::gradient_exchange<float, pith::seq_executor, pith::any_communicator>;

  static std::vector<pith::tensor_spec> specs(named_tensors const& of) {
    auto all = std::vector<pith::tensor_spec>();
    for (auto const& p : of) all.push_back(spec_of(p.key(), p.value()));
    return all;
  }

  place at_;
  torch::Tensor gradients_;
  exchange_type exchange_;
  pith::gradiveq<float, pith::seq_executor, pith::any_communicator> schedule_;
  double sent_bytes_ = 0;
  std::vector<decided> decided_;
};

}  // namespace pith_libtorch
