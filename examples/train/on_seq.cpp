// examples/train/on_seq.cpp — the exchanges on seq, compiled beside main.cpp.
#include "codec_of.hpp"
#include "controllers.hpp"
#include "exchange.hpp"
#include "prediction.hpp"
#include "schedule.hpp"
#include "stopwatch.hpp"

#include <pith/adaptor/rated.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace train {

namespace {

template <class Comm>
class seq_exchange : public rank_exchange {
  using communicator = stopwatch_communicator<Comm>;
  using plain = pith::gradient_exchange<float, pith::seq_executor, communicator>;
  using adaptive = pith::adaptive_exchange<float, pith::seq_executor, communicator, traced_controller>;

 public:
  seq_exchange(Comm comm, network const& net, std::string const& codec, std::size_t steps, std::size_t epoch,
               pith::exchange_options const& options)
      : comm_(std::move(comm)) {
    auto const tensors = specs(net);
    if (codec == schedule_name) {
      plain_.emplace(pith::seq, comm_, tensors, any_codec(pith::identity()), options);
      schedule_.emplace(comm_, *plain_, net, steps);
    } else if (is_controller(codec)) {
      auto const sent = pith::matrices(pith::error_feedback(pith::rated(pith::top_k(0.1))));
      auto controller = controller_of(codec, tensors, comm_.size(), steps, epoch);
      adaptive_.emplace(pith::seq, comm_, tensors, sent, std::move(controller), options);
    } else {
      plain_.emplace(pith::seq, comm_, tensors, pith::matrices(codec_of(codec)), options);
    }
  }

  seq_exchange(seq_exchange const&) = delete;  // an exchange has the address of its communicator
  seq_exchange& operator=(seq_exchange const&) = delete;

  phases all_reduce_mean(std::vector<float>& gradient) override {
    return comm_.of([&] { exchange(gradient); });
  }
  pith::traffic bytes() const override { return (plain_ ? *plain_ : adaptive_->exchange()).traffic(); }
  std::vector<decided_step> decided() const override {
    if (schedule_) return schedule_->decided();
    return plain_ ? std::vector<decided_step>() : adaptive_->controller().decided();
  }

 private:
  void exchange(std::vector<float>& gradient) {
    if (schedule_) return schedule_->all_reduce_mean(gradient);
    plain_ ? plain_->all_reduce_mean(gradient) : adaptive_->all_reduce_mean(gradient);
  }

  communicator comm_;
  std::optional<plain> plain_;
  std::optional<adaptive> adaptive_;
  std::optional<traced_schedule<communicator>> schedule_;
};

}  // namespace

template <class Comm>
std::unique_ptr<rank_exchange> exchange_on_seq(Comm comm, network const& net, std::string const& codec,
                                               std::size_t steps, std::size_t epoch,
                                               pith::exchange_options const& options) {
  return std::make_unique<seq_exchange<Comm>>(std::move(comm), net, codec, steps, epoch, options);
}

template std::unique_ptr<rank_exchange> exchange_on_seq(pith::thread_communicator, network const&, std::string const&,
                                                        std::size_t, std::size_t, pith::exchange_options const&);
template std::unique_ptr<rank_exchange> exchange_on_seq(echo_communicator, network const&, std::string const&,
                                                        std::size_t, std::size_t, pith::exchange_options const&);

}  // namespace train
