// averaging.hpp — how the ranks average gradients: pith's exchange, or one MPI_Allreduce after backward.
#pragma once

#include "exchange_hooks.hpp"

#include <pith/exchange/report_lines.hpp>
#include <pith/exchange/reshard.hpp>

#include <cstddef>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

namespace pith_libtorch {

class averaging {
 public:
  virtual ~averaging() = default;
  virtual void zero_grad() = 0;
  /// Backward of a micro-step; and of the last one, after which the gradients are means.
  virtual void accumulate(torch::Tensor const& loss) { loss.backward(); }
  virtual void backward(torch::Tensor const& loss) = 0;

  virtual void fit_buckets() {}
  virtual void report(std::ostream&, pith::report_labels const&) const {}
  /// The state of this rank; and the states of all ranks of the job that saved them.
  virtual std::vector<std::byte> export_state() const = 0;
  virtual void import_states(std::vector<std::vector<std::byte>> const& states) = 0;
};

template <class In>
class compressed_averaging final : public averaging {
 public:
  compressed_averaging(pith::any_communicator& comm, named_tensors const& of, codec_texts const& codec_of,
                       hook_options const& options)
      : rank_(comm.rank()), ranks_(comm.size()), hooks_(comm, of, codec_of, options) {}

  void zero_grad() override { hooks_.zero_grad(); }
  void accumulate(torch::Tensor const& loss) override { hooks_.accumulate(loss); }
  void backward(torch::Tensor const& loss) override { hooks_.backward(loss); }

  void fit_buckets() override { hooks_.exchange().fit_buckets(); }
  void report(std::ostream& out, pith::report_labels const& labels) const override {
    pith::write_lines(out, hooks_.exchange().report(), labels);
  }
  std::vector<std::byte> export_state() const override { return hooks_.exchange().export_state(); }
  void import_states(std::vector<std::vector<std::byte>> const& states) override {
    hooks_.exchange().import_state(states.size() == ranks_ ? states[rank_] : pith::reshard(states, ranks_, rank_));
  }

 private:
  unsigned rank_, ranks_;
  exchange_hooks<In> hooks_;
};

}  // namespace pith_libtorch
