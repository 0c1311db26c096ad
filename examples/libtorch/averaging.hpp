// averaging.hpp — how the ranks average gradients: pith's exchange, or one MPI_Allreduce after backward.
#pragma once

#include "exchange_hooks.hpp"

#include <pith/exchange/report_lines.hpp>

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
  virtual std::vector<std::byte> export_state() const { return {}; }
  virtual void import_state(std::vector<std::byte> const&) {}
};

template <class In>
class compressed_averaging final : public averaging {
 public:
  compressed_averaging(pith::any_communicator& comm, parameters const& of, codec_texts const& codec_of,
                       hook_options const& options)
      : hooks_(comm, of, codec_of, options) {}

  void zero_grad() override { hooks_.zero_grad(); }
  void accumulate(torch::Tensor const& loss) override { hooks_.accumulate(loss); }
  void backward(torch::Tensor const& loss) override { hooks_.backward(loss); }

  void fit_buckets() override { hooks_.exchange().fit_buckets(); }
  void report(std::ostream& out, pith::report_labels const& labels) const override {
    pith::write_lines(out, hooks_.exchange().report(), labels);
  }
  std::vector<std::byte> export_state() const override { return hooks_.exchange().export_state(); }
  void import_state(std::vector<std::byte> const& state) override { hooks_.exchange().import_state(state); }

 private:
  exchange_hooks<In> hooks_;
};

}  // namespace pith_libtorch
