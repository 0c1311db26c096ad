// examples/train/exchange.hpp — the exchange of a codec, of rates that a controller chooses, or of a schedule's phases.
#pragma once

#include "codec_of.hpp"
#include "controllers.hpp"
#include "schedule.hpp"

#include <pith/adapt/rated.hpp>
#include <pith/comm/adaptive_exchange.hpp>
#include <pith/comm/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace train {

inline std::vector<pith::tensor_spec> specs(network const& net) {
  std::vector<pith::tensor_spec> all;
  for (auto const& tensor : net.tensors()) all.push_back({tensor.name, {tensor.n, tensor.rows}});
  return all;
}

template <class Comm>
class any_exchange {
  using plain = pith::gradient_exchange<float, pith::seq_executor, Comm>;
  using adaptive = pith::adaptive_exchange<float, pith::seq_executor, Comm, traced_controller>;

 public:
  /// `codec` is a codec's text, or the name of a controller or of a schedule.
  any_exchange(Comm& comm, network const& net, std::string const& codec, std::size_t steps, std::size_t epoch,
               pith::exchange_options const& options) {
    auto const tensors = specs(net);
    if (codec == schedule_name) {
      plain_.emplace(pith::seq, comm, tensors, any_codec(pith::identity()), options);
      schedule_.emplace(comm, *plain_, net, steps);
    } else if (is_controller(codec)) {
      auto const sent = pith::matrices(pith::error_feedback(pith::rated(pith::top_k(0.1))));
      auto controller = controller_of(codec, tensors, comm.size(), steps, epoch);
      adaptive_.emplace(pith::seq, comm, tensors, sent, std::move(controller), options);
    } else {
      plain_.emplace(pith::seq, comm, tensors, pith::matrices(codec_of(codec)), options);
    }
  }

  any_exchange(any_exchange const&) = delete;  // a schedule has the address of its exchange
  any_exchange& operator=(any_exchange const&) = delete;

  void all_reduce_mean(std::vector<float>& gradient) {
    if (schedule_) return schedule_->all_reduce_mean(gradient);
    plain_ ? plain_->all_reduce_mean(gradient) : adaptive_->all_reduce_mean(gradient);
  }
  plain const& of() const { return plain_ ? *plain_ : adaptive_->exchange(); }
  /// What a controller decided in each step but the last, or a schedule in each; nothing without one.
  std::vector<decided_step> decided() const {
    if (schedule_) return schedule_->decided();
    return plain_ ? std::vector<decided_step>() : adaptive_->controller().decided();
  }

 private:
  std::optional<plain> plain_;
  std::optional<adaptive> adaptive_;
  std::optional<traced_schedule<Comm>> schedule_;
};

}  // namespace train
