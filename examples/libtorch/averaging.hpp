// averaging.hpp — how the ranks average gradients: pith's exchange, or one MPI_Allreduce after backward.
#pragma once

#include "exchange_hooks.hpp"

#include <pith/exchange/report_lines.hpp>
#include <pith/exchange/reshard.hpp>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

namespace pith_libtorch {

/// This rank, and the number of ranks.
struct place {
  int rank, ranks;
};

class averaging {
 public:
  virtual ~averaging() = default;
  virtual void zero_grad() = 0;
  /// Backward of a micro-step; and of the last one, after which the gradients are means.
  virtual void accumulate(torch::Tensor const& loss) { loss.backward(); }
  virtual void backward(torch::Tensor const& loss) = 0;

  /// For controllers: the learning rate from the next step on, and the end of a pause between steps.
  virtual void set_learning_rate(double) {}
  virtual void restart_clock() {}
  virtual void fit_buckets() {}
  /// The bytes of gradients that this rank sent in the last step, without the transfers of a controller.
  virtual double sent_bytes() const = 0;
  virtual void report(std::ostream&, pith::report_labels const&) const {}
  virtual void write_decisions(std::filesystem::path const&) const {}
  /// The state of this rank; and the states of all ranks of the job that saved them.
  virtual std::vector<std::byte> export_state() = 0;
  virtual void import_states(std::vector<std::vector<std::byte>> const& states) = 0;
};

/// Returns the gradient_exchange, which has reports: that of a pith::adaptive_exchange, or the exchange itself.
template <class Exchange>
auto const& plain(Exchange const& exchange) {
  if constexpr (requires { exchange.exchange(); })
    return exchange.exchange();
  else
    return exchange;
}

template <class In, class Exchange = pith::runtime::gradient_exchange<In>>
class compressed_averaging : public averaging {
 public:
  /// The arguments after the place are those of exchange_hooks.
  template <class... Arguments>
  explicit compressed_averaging(place at, Arguments&&... arguments)
      : at_(at), hooks_(std::forward<Arguments>(arguments)...) {}

  void zero_grad() override { hooks_.zero_grad(); }
  void accumulate(torch::Tensor const& loss) override { hooks_.accumulate(loss); }
  void backward(torch::Tensor const& loss) override { hooks_.backward(loss); }

  void fit_buckets() override { exchange().fit_buckets(); }
  double sent_bytes() const override { return plain(exchange()).traffic().sent(static_cast<unsigned>(at_.ranks)); }
  void report(std::ostream& out, pith::report_labels const& labels) const override {
    pith::write_lines(out, plain(exchange()).report(), labels);
  }
  std::vector<std::byte> export_state() override { return exchange().export_state(); }
  void import_states(std::vector<std::vector<std::byte>> const& states) override {
    auto const rank = static_cast<unsigned>(at_.rank), ranks = static_cast<unsigned>(at_.ranks);
    exchange().import_state(states.size() == ranks ? states[rank] : pith::reshard(states, ranks, rank));
  }

 protected:
  Exchange& exchange() { return hooks_.exchange(); }
  Exchange const& exchange() const { return hooks_.exchange(); }

 private:
  place at_;
  exchange_hooks<In, Exchange> hooks_;
};

}  // namespace pith_libtorch
