// adaptive_averaging.hpp — averages gradients by top_k, with densities that one of pith's controllers chooses.
#pragma once

#include "../train/traced_controller.hpp"
#include "averaging.hpp"

#include <pith/adaptor/rated.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/executors.hpp>
#include <pith/feedback.hpp>
#include <pith/sparsify/top_k.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace pith_libtorch {

struct controller_options {
  std::string name;  ///< gravac, gravac_by_gradients or accordion
  double min_gain = 0.7;
  std::int64_t window = 500;  ///< steps between two decisions of accordion, or two moves of gravac
};

/// The factors of GraVAC's paper, 10 to 1000; and the smallest and the largest of them for accordion.
inline train::traced_controller made_controller(controller_options const& of, std::vector<pith::tensor_spec> tensors) {
  auto const window = static_cast<std::uint32_t>(of.window);
  if (of.name == "accordion")
    return {pith::accordion({.high_rate = 0.1, .low_rate = 0.001, .interval = window}), std::move(tensors)};
  if (of.name == "gravac_by_gradients")
    return {pith::gravac_by_gradients({.min_gain = of.min_gain, .window = window}), std::move(tensors)};
  return {pith::gravac({.min_gain = of.min_gain, .window = window}), std::move(tensors)};
}

using adaptive_exchange =
    pith::adaptive_exchange<float, pith::seq_executor, pith::any_communicator, train::traced_controller>;

/// Matrices by top_k with error feedback, vectors uncompressed. From the density 1 / ranks on, steps are dense, because an
/// all-gather of payloads sends about as many bytes (docs/adaptive.md).
class adaptive_averaging final : public compressed_averaging<float, adaptive_exchange> {
 public:
  adaptive_averaging(pith::any_communicator& comm, place at, named_tensors const& of,
                     controller_options const& controller, hook_options const& options)
      : compressed_averaging(
            at, of,
            [&](std::vector<pith::tensor_spec> const& tensors) {
              auto const codec = pith::error_feedback(pith::rated(pith::top_k(0.1), 1.0 / comm.size()));
              return adaptive_exchange(pith::seq, comm, tensors, pith::matrices(codec),
                                       made_controller(controller, tensors), options.exchange);
            },
            options) {}

  void set_learning_rate(double rate) override { exchange().set_learning_rate(rate); }
  void restart_clock() override { exchange().restart_clock(); }

  /// Writes a line per observed step: the factor by which the sent elements were reduced, and the gain relative to |p|^2.
  /// The controller observes a step before the next step or checkpoint.
  void write_decisions(std::filesystem::path const& path) const override {
    auto* const file = std::fopen(path.c_str(), "w");
    if (!file) throw std::invalid_argument(fmt::format("--decisions: cannot write {}", path.string()));
    fmt::print(file, "step,factor,gain\n");
    for (auto const& at : exchange().controller().decided())
      fmt::print(file, "{},{:.3f},{:.6f}\n", at.step, at.factor, at.gain);
    std::fclose(file);
  }
};

}  // namespace pith_libtorch
