// examples/train/schedule.hpp — gradiveq's phases for a training of a given length, logged as decisions.
#pragma once

#include "controllers.hpp"
#include "network.hpp"
#include "stopwatch.hpp"

#include <pith/control/gradiveq.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>

#include <range/v3/view/enumerate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace train {

inline constexpr std::string_view schedule_name = "gradiveq";

/// A kernel lies as (filters, window, depth): read with filters fastest, it is a kernel of one place whose depth is all
/// that a filter takes. Slices are a row of the window.
inline std::vector<pith::gradiveq_tensor> convolutions(network const& net) {
  std::vector<pith::gradiveq_tensor> all;
  for (auto const& [i, t] : ranges::views::enumerate(net.tensors())) {
    if (t.window > 0) all.push_back({i, {.filters = t.rows, .depth = t.n / t.rows}, t.n / 3});
  }
  if (all.empty()) throw std::invalid_argument("train: gradiveq needs a model with convolutions");
  return all;
}

/// The paper's proportions, shortened: 1, 1 and 4 eighteenths of the training, which has some three periods.
inline pith::gradiveq_options phases_for(std::size_t steps) {
  auto const unit = std::max<std::size_t>(2, steps / 18);
  return {.warm_up = unit,
          .samples = unit,
          .compressed = 4 * unit,
          .basis = {.lambda = 0.05},
          .first_losses = std::min<std::uint64_t>(20, 2 * unit)};
}

template <class Comm>
class traced_schedule {
 public:
  using exchange = pith::gradient_exchange<float, pith::seq_executor, Comm>;

  traced_schedule(Comm& comm, exchange& of, network const& net, std::size_t steps)
      : schedule_(pith::seq, comm, of, convolutions(net), phases_for(steps)),
        exchange_(&of),
        dense_bytes_(static_cast<double>(net.size() * sizeof(float))) {}

  void all_reduce_mean(std::vector<float>& gradient) {
    auto const sent = static_cast<double>(exchange_->traffic().gathered + exchange_->traffic().summed);
    auto const is_compressed = schedule_.phase() == pith::gradiveq_phase::compressed;
    stopwatch watch;
    schedule_.all_reduce_mean(gradient);
    auto const lost = is_compressed ? schedule_.loss() : 0;
    decided_.push_back({decided_.size() + 1, dense_bytes_ / sent, 1 - lost * lost, watch.lap()});
  }
  std::vector<decided_step> const& decided() const { return decided_; }

 private:
  pith::gradiveq<float, pith::seq_executor, Comm> schedule_;
  exchange* exchange_;
  double dense_bytes_;
  std::vector<decided_step> decided_;
};

}  // namespace train
