// pith/control/accordion.hpp — a controller that compresses less while gradient norms change.
#pragma once

#include <pith/control/rate_controller.hpp>
#include <pith/core/error.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace pith { inline namespace PITH_ABI {

struct accordion_options {
  double high_rate = 0.99;     ///< rate of tensors in a critical regime
  double low_rate = 0.1;       ///< rate of all other tensors
  double change = 0.5;         ///< smallest relative change of a norm that begins a critical regime
  std::uint64_t interval = 1;  ///< steps between two comparisons of norms; in the paper, ten epochs
  double smoothing = 0;        ///< 0: mean over an interval; else a moving average, with this weight for each new step
  bool is_of_model = false;    ///< true: one decision for all tensors, by the norm of the whole gradient
  double fall = 0.5;           ///< smallest relative fall of the learning rate that begins a critical regime

  /// The options with which the GraVAC paper runs Accordion. In each step, the controller compares the norm of the
  /// whole gradient with that of the previous step. Both norms are moving averages.
  static accordion_options each_step() {
    return {.high_rate = 0.01, .low_rate = 0.001, .change = 0.2, .interval = 1, .smoothing = 0.02, .is_of_model = true};
  }
};

/// Chooses the high rate while a tensor's gradient norm changes (a critical regime), and the low rate otherwise. After
/// each interval of steps, the controller compares each tensor's norm with `last`, the norm at the previous comparison.
/// The norm is sqrt(a), where a is |g|^2 summed over the ranks and averaged over the interval's steps. The regime is
/// critical if |norm - last| >= change x last, or if last = 0. In the first interval, all tensors get the high rate. If
/// the learning rate falls by the fraction `fall` or more, all tensors get the high rate until the next comparison. A
/// smaller fall has no effect, since many schedules lower the learning rate a little in every step.
///
///   state       four 8-byte values per tensor; saved
///   on NaN      a step with a NaN or infinite |g|^2 does not change the norms, and the next step is dense. After an
///               interval that has only such steps, norms are not compared
///   errors      if load() throws, the controller is unchanged
///   reference   Agarwal, Wang, Lee, Venkataraman and Papailiopoulos, Accordion, MLSys 2021. The paper uses the norm of
///               the sum of an interval's gradients, and must store this sum, which has as many elements as the tensor
class accordion {
 public:
  using facets = ext::facets<ext::gradient_norms>;

  explicit accordion(accordion_options options = {}) : options_(options) {
    using detail::require;
    auto const& o = options_;
    require(0 < o.low_rate && o.low_rate <= o.high_rate && o.high_rate <= 1,
            "accordion: rates must be 0 < low_rate <= high_rate <= 1, got ", o.low_rate, " and ", o.high_rate);
    require(0 <= o.change && o.change < HUGE_VAL, "accordion: change must be finite and at least 0, got ", o.change);
    require(o.interval >= 1, "accordion: interval must be at least 1, got ", o.interval);
    require(0 < o.fall && o.fall < 1, "accordion: fall must be in (0, 1), got ", o.fall);
    require(0 <= o.smoothing && o.smoothing <= 1, "accordion: smoothing must be in [0, 1], got ", o.smoothing);
  }

  std::string name() const {
    return detail::text("accordion(", detail::shortest(options_.high_rate), ",", detail::shortest(options_.low_rate),
                        ",", detail::shortest(options_.change), ")");
  }

  void observe(step_report const& seen) {
    auto const norms = options_.is_of_model ? 1 : seen.gradients.size();
    regimes_.resize(norms);
    double all = 0;
    for (auto const energy : seen.gradients) all += energy;
    is_blind_ = !std::isfinite(all);
    ++steps_;
    if (is_blind_) ++blind_steps_;
    for (std::size_t i = 0; i < norms && !is_blind_; ++i)
      note(regimes_[i], options_.is_of_model ? all : seen.gradients.data()[i]);
    if (steps_ % options_.interval == 0) {
      for (auto& r : regimes_) compare(r);
      blind_steps_ = 0;
    }
    note_learning_rate(seen.learning_rate);
  }
  double decide(std::uint64_t, std::uint32_t tensor) const {
    if (is_blind_) return 1;
    auto const i = options_.is_of_model ? 0 : tensor;
    return i >= regimes_.size() || regimes_[i].is_critical != 0 ? options_.high_rate : options_.low_rate;
  }

  std::vector<std::byte> save() const {
    auto all = regimes_;
    all.push_back({learning_rate_, blind_steps_, steps_, is_blind_ ? 1u : 0u});
    return saved_bytes(all.data(), all.size());
  }
  void load(span<std::byte const> saved) {
    auto all = loaded_values<regime>("accordion", saved);
    detail::require(!all.empty(), "accordion::load: the state must have at least ", sizeof(regime), " bytes, got 0");
    learning_rate_ = all.back().sum;
    blind_steps_ = all.back().last;
    steps_ = all.back().seen;
    is_blind_ = all.back().is_critical != 0;
    all.pop_back();
    regimes_ = std::move(all);
  }

 private:
  struct regime {
    double sum = 0, last = 0;  ///< sum or average of |g|^2; norm at the last comparison
    std::uint64_t seen = 0, is_critical = 1;
  };

  void note_learning_rate(double rate) {
    auto const has_fallen = rate <= learning_rate_ * (1 - options_.fall) && rate < learning_rate_;
    if (has_fallen) {
      for (auto& r : regimes_) r.is_critical = 1;
    }
    if (has_fallen || rate > learning_rate_) learning_rate_ = rate;
  }
  void note(regime& of, double energy) const {
    auto const share = options_.smoothing;
    of.sum = share == 0 ? of.sum + energy : of.seen == 0 ? energy : detail::moved(of.sum, energy, share);
    ++of.seen;
  }
  void compare(regime& of) const {
    if (of.seen == 0 || !(blind_steps_ < static_cast<double>(options_.interval))) return;
    auto const norm = std::sqrt(options_.smoothing == 0 ? of.sum / static_cast<double>(of.seen) : of.sum);
    of.is_critical = of.last == 0 || std::abs(of.last - norm) >= options_.change * of.last ? 1 : 0;
    of.last = norm;
    if (options_.smoothing == 0) of.sum = 0, of.seen = 0;
  }

  accordion_options options_;
  std::vector<regime> regimes_;
  double learning_rate_ = 0;  ///< the highest learning rate since the last fall by the fraction `fall`
  std::uint64_t steps_ = 0;
  double blind_steps_ = 0;  ///< this interval's steps with a NaN or infinite |g|^2
  bool is_blind_ = false;   ///< the last step is one of them
};

static_assert(rate_controller<accordion>);

}}  // namespace pith::PITH_ABI
