// losses.hpp — the losses of a training as comma-separated values, with the columns of examples/torch/train_gpt.py and
// the bytes that this rank sent.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace pith_libtorch {

/// Writes a line per step. The columns of the validation stay empty in other steps.
class losses {
 public:
  losses(std::filesystem::path const& path, bool is_writer) {
    if (!is_writer) return;
    file_ = path.empty() ? stdout : std::fopen(path.c_str(), "w");
    if (!file_) throw std::invalid_argument(fmt::format("--out: cannot write {}", path.string()));
    fmt::print(file_, "step,seconds,sent_bytes,training_loss,validation_loss,whole_validation_loss\n");
  }
  losses(losses&&) = delete;
  ~losses() {
    if (file_ && file_ != stdout) std::fclose(file_);
  }

  void write(std::int64_t step, double seconds, double bytes, double training, std::vector<double> const& validation) {
    if (!file_) return;
    fmt::print(file_, "{},{:.3f},{:.0f},{:.6f}", step, seconds, bytes, training);
    for (auto const loss : validation) fmt::print(file_, ",{:.6f}", loss);
    fmt::print(file_, "\n");
    std::fflush(file_);
  }

 private:
  std::FILE* file_ = nullptr;
};

}  // namespace pith_libtorch
