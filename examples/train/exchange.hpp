// examples/train/exchange.hpp — the exchange of a codec, or of rates that a controller chooses.
#pragma once

#include "codec_of.hpp"
#include "controllers.hpp"

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

template <class Comm>
class any_exchange {
  using plain = pith::gradient_exchange<float, pith::seq_executor, Comm>;
  using adaptive = pith::adaptive_exchange<float, pith::seq_executor, Comm, traced_controller>;

 public:
  /// `codec` is a codec's text or a controller's name.
  any_exchange(Comm& comm, std::vector<pith::tensor_spec> const& tensors, std::string const& codec, std::size_t steps,
               std::size_t epoch, pith::exchange_options const& options) {
    if (is_controller(codec)) {
      auto const sent = pith::matrices(pith::error_feedback(pith::rated(pith::top_k(0.1))));
      auto controller = controller_of(codec, tensors, comm.size(), steps, epoch);
      adaptive_.emplace(pith::seq, comm, tensors, sent, std::move(controller), options);
    } else {
      plain_.emplace(pith::seq, comm, tensors, pith::matrices(codec_of(codec)), options);
    }
  }

  void all_reduce_mean(std::vector<float>& gradient) {
    plain_ ? plain_->all_reduce_mean(gradient) : adaptive_->all_reduce_mean(gradient);
  }
  plain const& of() const { return plain_ ? *plain_ : adaptive_->exchange(); }
  /// What a controller decided in each step but the last; nothing without one.
  std::vector<decided_step> decided() const {
    return plain_ ? std::vector<decided_step>() : adaptive_->controller().decided();
  }

 private:
  std::optional<plain> plain_;
  std::optional<adaptive> adaptive_;
};

}  // namespace train
