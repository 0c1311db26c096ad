// dense_averaging.hpp — averages gradients without pith, for comparisons.
#pragma once

#include "averaging.hpp"

#include <mpi.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace pith_libtorch {

/// Adds bfloat16 values, which MPI lacks. Each sum is rounded.
inline void add_bfloat16(void* in, void* inout, int* n, MPI_Datatype*) {
  auto const* const x = static_cast<at::BFloat16 const*>(in);
  auto* const y = static_cast<at::BFloat16*>(inout);
  for (int i = 0; i < *n; ++i) y[i] += x[i];
}

/// After backward, one MPI_Allreduce adds all gradients: as floats, or rounded to bfloat16 and sent as 16-bit words.
class dense_averaging final : public averaging {
 public:
  dense_averaging(std::vector<torch::Tensor> const& of, bool is_bfloat16)
      : gradients_(lay_flat(of)), is_bfloat16_(is_bfloat16) {
    MPI_Op_create(add_bfloat16, 1, &sum_of_bfloat16_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  dense_averaging(dense_averaging&&) = delete;
  ~dense_averaging() override { MPI_Op_free(&sum_of_bfloat16_); }

  void zero_grad() override { gradients_.zero_(); }
  void backward(torch::Tensor const& loss) override {
    loss.backward();
    if (is_bfloat16_) {
      auto const rounded = gradients_.to(torch::kBFloat16);
      sum(rounded, MPI_UINT16_T, sum_of_bfloat16_);
      gradients_.copy_(rounded);
    } else {
      sum(gradients_, MPI_FLOAT, MPI_SUM);
    }
    gradients_.div_(ranks_);
  }

  double sent_bytes() const override {
    auto const bytes = static_cast<double>(gradients_.numel()) * (is_bfloat16_ ? 2 : 4);
    return 2 * bytes * (ranks_ - 1) / ranks_;
  }
  std::vector<std::byte> export_state() override { return {}; }
  void import_states(std::vector<std::vector<std::byte>> const& states) override {
    for (auto const& state : states)
      if (!state.empty()) throw std::invalid_argument("--resume: --dense must have no state of codecs, got one");
  }

 private:
  static void sum(torch::Tensor const& x, MPI_Datatype type, MPI_Op how) {
    auto const n = static_cast<int>(x.numel());
    if (MPI_Allreduce(MPI_IN_PLACE, x.data_ptr(), n, type, how, MPI_COMM_WORLD) != MPI_SUCCESS)
      throw std::runtime_error("train: MPI_Allreduce failed");
  }

  torch::Tensor gradients_;
  bool is_bfloat16_;
  MPI_Op sum_of_bfloat16_ = MPI_OP_NULL;
  int ranks_ = 1;
};

}  // namespace pith_libtorch
