// pith/control/gravac.hpp — a controller that searches for the highest compression factor with sufficient gain.
#pragma once

#include <pith/control/rate_controller.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// Compression factors in ascending order, called rungs. With the factor f, a rank sends 1 / f of the elements.
class factor_ladder {
 public:
  static constexpr std::size_t max_rungs = 24;

  /// The factors `first` x (1, 2, 2^2, 2^4, 2^8 ...), capped at `last`. For example, first = 10 and last = 1000 give
  /// the factors 10, 20, 40, 160, 1000.
  static factor_ladder exponential(double first, double last) {
    require_ends("exponential", first, last);
    auto rungs = std::vector<double>{first};
    for (double by = 2; rungs.back() < last && rungs.size() <= max_rungs; by *= by)
      rungs.push_back(std::min(first * by, last));
    return factor_ladder(std::move(rungs));
  }
  /// The factors `first` x (1, 2, 2^2, 2^3, 2^4 ...), capped at `last`. For example, first = 10 and last = 2000 give
  /// the factors 10, 20, 40, 80, ... 1280, 2000.
  static factor_ladder geometric(double first, double last, double by = 2) {
    require_ends("geometric", first, last);
    detail::require(1 < by && by < HUGE_VAL, "factor_ladder::geometric: by must be finite and above 1, got ", by);
    auto rungs = std::vector<double>{first};
    while (rungs.back() < last && rungs.size() <= max_rungs) rungs.push_back(std::min(rungs.back() * by, last));
    return factor_ladder(std::move(rungs));
  }

  explicit factor_ladder(std::vector<double> rungs) : rungs_(std::move(rungs)) {
    detail::require(!rungs_.empty() && rungs_.size() <= max_rungs, "factor_ladder: the ladder must have 1 to ",
                    max_rungs, " rungs, got ", rungs_.size());
    for (std::size_t i = 0; i < rungs_.size(); ++i) {
      auto const before = i == 0 ? 1 : rungs_[i - 1];
      detail::require(std::isfinite(rungs_[i]) && rungs_[i] > before, "factor_ladder: rung ", i,
                      " must be finite and above ", before, ", got ", rungs_[i]);
    }
  }

  std::size_t size() const { return rungs_.size(); }
  double operator[](std::size_t rung) const { return rungs_[rung]; }
  double rate(std::size_t rung) const { return 1 / rungs_[rung]; }

 private:
  static void require_ends(char const* ladder, double first, double last) {
    detail::require(1 < first && first < HUGE_VAL, "factor_ladder::", ladder,
                    ": first must be finite and above 1, got ", first);
    detail::require(first <= last && last < HUGE_VAL, "factor_ladder::", ladder, ": last must be finite and at least ",
                    first, ", got ", last);
  }

  std::vector<double> rungs_;
};

/// The average of the gains of several steps. The gain of one step is kept / energy (rate_report). `of_energies` is
/// average(kept) / average(energy). `of_quotients` is average(kept / energy), as in the paper.
enum class gain_average : std::uint8_t { of_energies, of_quotients };

struct gravac_options {
  factor_ladder ladder = factor_ladder::exponential(10, 1000);
  double min_gain = 0.7;       ///< smallest gain with which a factor is used
  double saturation = 0.01;    ///< relative difference up to which two gains, or two throughputs, count as equal
  std::uint32_t window = 500;  ///< steps between two moves on the ladder
  double smoothing = 0.04;     ///< weight of a new value in an average; the paper uses smoothing_for(ranks)
  gain_average average = gain_average::of_energies;
  std::uint32_t samples = 10;       ///< a factor's throughput is compared after min(samples, window) steps
  std::uint32_t fresh_windows = 8;  ///< a throughput that is older than this many windows is not compared
  double regime = 2;                ///< a change of the learning rate by this factor restarts the search

  /// The smoothing that the paper uses: min(1, ranks / 100).
  static double smoothing_for(unsigned ranks) { return std::min(1.0, ranks / 100.0); }
};

/// Measures the gains of two factors of a ladder, a lower and a higher one. The gain of a factor is the share of |p|^2
/// that compression by this factor keeps, where p is the encoder's input. Each step uses the higher factor if its gain
/// is at least `min_gain`. Otherwise, the step uses the lower factor if the lower factor's gain is at least
/// `min_gain`. Otherwise, the step is dense. After each window of steps, the lower factor is set to the higher factor
/// if both gains are equal up to `saturation`. Then the higher factor moves up the ladder. The throughput of a factor
/// is gain / (seconds per step). The search ends when the two highest throughputs are equal up to `saturation`.
///
///   requires    tensors whose codec measures, as error_feedback(rated(top_k(...))) does. All tensors get the same rate
///   state       averages for at most 24 factors, about 1.2 kB in total; saved
///   complexity  observe() and decide() allocate nothing
///   on NaN      after a NaN or infinite energy the next step is dense; the averages do not change, and the step does not
///               count in its window. If all energies are zero, the gain is 1
///   errors      if load() throws, the controller is unchanged
///   reference   Tyagi and Swany, GraVAC, CLOUD 2023; docs/adaptive.md lists points that the paper leaves open, and the
///               differences between gravac and the paper
class gravac {
 public:
  using facets = ext::facets<ext::energies>;

  explicit gravac(gravac_options options = {}) : gravac(std::move(options), gain_over::input) {}

  std::string name() const {
    return detail::text(over_ == gain_over::input ? "gravac(" : "gravac_by_gradients(",
                        detail::shortest(options_.ladder[0]), "..", detail::shortest(options_.ladder[top_rung()]), ",",
                        detail::shortest(options_.min_gain), ")");
  }

  void observe(step_report const& seen) {
    note_learning_rate(seen.learning_rate);
    ++state_.step;
    state_.sent = note_gains(seen) ? factor_after(seen.seconds) : dense;
  }
  double decide(std::uint64_t, std::uint32_t) const { return rate_of(state_.sent); }
  rate_list measures(std::uint64_t, std::uint32_t) const {
    auto rates = rate_list{options_.ladder.rate(state_.low)};
    if (state_.high != state_.low) rates.push_back(options_.ladder.rate(state_.high));
    return rates;
  }

  /// Restarts the search at the first factor and clears all averages. The next step is dense, unless the report of the
  /// last step has the gains of the first factors.
  void reopen() {
    state_.rungs = {};
    state_.sent = dense;
    state_.is_saturated = 0;
    state_.low = 0;
    state_.high = top_rung() == 0 ? 0 : 1;
    state_.in_window = state_.below = 0;
  }

  /// For plots: the lower and the higher factor, the factor of the next step (1 if dense), the gain of this factor, and
  /// whether the search has ended.
  double low_factor() const { return options_.ladder[state_.low]; }
  double high_factor() const { return options_.ladder[state_.high]; }
  double factor() const { return state_.sent == dense ? 1 : options_.ladder[state_.sent]; }
  double gain() const { return state_.sent == dense ? 1 : gain_of(state_.sent); }
  bool is_saturated() const { return state_.is_saturated != 0; }

  std::vector<std::byte> save() const { return saved_bytes(&state_, 1); }
  void load(span<std::byte const> saved) {
    auto const loaded = loaded_values<state>("gravac", saved);
    auto const is_rung = [&](std::uint32_t r) { return r <= top_rung(); };
    detail::require(loaded.size() == 1, "gravac::load: the state must have ", sizeof(state), " bytes, got ",
                    saved.size());
    auto const [low, high, sent] = std::array{loaded[0].low, loaded[0].high, loaded[0].sent};
    detail::require(is_rung(low) && is_rung(high) && (is_rung(sent) || sent == dense),
                    "gravac::load: the state's rungs must be below ", options_.ladder.size(), ", got ", low, ", ", high,
                    " and ", sent, ": load it with the ladder that saved it");
    state_ = loaded[0];
  }

 protected:
  /// The energy by which the kept energy is divided.
  enum class gain_over : std::uint8_t {
    input,    ///< |p|^2 of the encoder's input p, which contains the residual
    gradient  ///< |g|^2 of the gradient g; such a class declares ext::gradient_norms
  };

  gravac(gravac_options options, gain_over over) : options_(std::move(options)), over_(over) {
    using detail::require;
    auto const& o = options_;
    require(0 < o.min_gain && o.min_gain <= 1, "gravac: min_gain must be in (0, 1], got ", o.min_gain);
    require(0 <= o.saturation && o.saturation < 1, "gravac: saturation must be in [0, 1), got ", o.saturation);
    require(0 < o.smoothing && o.smoothing <= 1, "gravac: smoothing must be in (0, 1], got ", o.smoothing);
    require(o.window >= 1 && o.samples >= 1 && o.fresh_windows >= 1,
            "gravac: window, samples and fresh_windows must be at least 1, got ", o.window, ", ", o.samples, " and ",
            o.fresh_windows);
    require(1 < o.regime && o.regime < HUGE_VAL, "gravac: regime must be finite and above 1, got ", o.regime);
    state_.high = top_rung() == 0 ? 0 : 1;
  }

 private:
  static constexpr std::uint32_t dense = ~std::uint32_t{0};

  /// The averages for one factor: `energy`, `kept`, and `throughput`, which is the average of gain / seconds over the
  /// steps that used the factor.
  struct rung {
    double energy = 0, kept = 0, throughput = 0;
    std::uint64_t seen = 0, samples = 0, last = 0;
  };
  struct state {
    std::array<rung, factor_ladder::max_rungs> rungs = {};
    double learning_rate = 0;
    std::uint64_t step = 0;
    std::uint32_t low = 0, high = 0;  ///< the two measured factors
    std::uint32_t sent = dense;       ///< the factor of the next step; the first step is dense
    std::uint32_t in_window = 0;      ///< steps of the current window so far
    std::uint32_t below = 0;          ///< consecutive steps with a gain below min_gain
    std::uint32_t is_saturated = 0;
  };

  std::uint32_t top_rung() const { return static_cast<std::uint32_t>(options_.ladder.size() - 1); }
  double rate_of(std::uint32_t r) const { return r == dense ? 1 : options_.ladder.rate(r); }
  double gain_of(std::uint32_t r) const {
    auto const& of = state_.rungs[r];
    if (of.seen == 0) return 0;
    return of.energy == 0 ? 1 : std::clamp(of.kept / of.energy, 0.0, 1.0);
  }

  /// Updates a moving average. The first value becomes the average.
  static void average(double& of, double value, bool is_first, double share) {
    of = is_first ? value : detail::moved(of, value, share);
  }

  /// If the energies are finite, updates the gains and returns true. A factor without a report keeps its gain. After a
  /// restart of the search, reports are missing if the last step measured other factors.
  bool note_gains(step_report const& seen) {
    auto const low = sum_at(seen, options_.ladder.rate(state_.low));
    auto const high = sum_at(seen, options_.ladder.rate(state_.high));
    for (auto const v : {low.energy, low.kept, high.energy, high.kept}) {
      if (!std::isfinite(v) || low.energy < 0) return false;
    }
    note_gain(state_.rungs[state_.low], low);
    if (state_.high != state_.low) note_gain(state_.rungs[state_.high], high);
    return true;
  }
  struct rate_sum {
    double energy = 0, kept = 0;
    std::size_t tensors = 0;
  };
  rate_sum sum_at(step_report const& seen, double rate) const {
    auto sum = rate_sum();
    for (auto const& r : seen.tensors) {
      if (r.rate != rate) continue;
      auto const is_of_gradient = over_ == gain_over::gradient && r.tensor < seen.gradients.size();
      sum.energy += is_of_gradient ? seen.gradients.data()[r.tensor] : r.energy;
      sum.kept += r.kept;
      ++sum.tensors;
    }
    return sum;
  }
  void note_gain(rung& of, rate_sum const& sum) const {
    if (sum.tensors == 0) return;
    auto const is_quotient = options_.average == gain_average::of_quotients;
    average(of.energy, is_quotient ? 1 : sum.energy, of.seen == 0, options_.smoothing);
    auto const quotient = rate_report{0, 1, sum.energy, sum.kept, 0}.gain();
    average(of.kept, is_quotient ? quotient : sum.kept, of.seen == 0, options_.smoothing);
    ++of.seen;
  }
  void note_throughput(double seconds) {
    if (state_.sent == dense || !(seconds > 0) || !std::isfinite(seconds)) return;
    auto& of = state_.rungs[state_.sent];
    average(of.throughput, gain_of(state_.sent) / seconds, of.samples == 0, options_.smoothing);
    ++of.samples;
    of.last = state_.step;
  }
  /// Restarts the search if the learning rate has changed by at least the factor `regime` since the first step or the
  /// last such restart. A smaller change has no effect, since many schedules change the learning rate a little in every
  /// step.
  void note_learning_rate(double rate) {
    auto const begun = state_.learning_rate;
    if (begun != 0 && rate < begun * options_.regime && rate > begun / options_.regime) return;
    if (begun != 0) reopen();
    state_.learning_rate = rate;
  }

  /// Counts a step with known gains. Returns the factor for the next step.
  std::uint32_t factor_after(double seconds) {
    note_throughput(seconds);
    auto const watched = state_.is_saturated != 0 ? state_.high : state_.low;
    state_.below = gain_of(watched) < options_.min_gain ? state_.below + 1 : 0;
    if (++state_.in_window >= options_.window) end_window();
    return row();
  }
  /// The highest measured factor with sufficient gain.
  std::uint32_t row() const {
    for (auto const r : {state_.high, state_.low}) {
      if (gain_of(r) >= options_.min_gain) return r;
    }
    return dense;
  }

  void end_window() {
    state_.in_window = 0;
    if (state_.below >= options_.window) return reopen();
    if (state_.is_saturated != 0) return;
    auto const low = gain_of(state_.low);
    if (low > 0 && std::abs(low - gain_of(state_.high)) / low <= options_.saturation) state_.low = state_.high;
    if (auto const [is_found, ideal] = saturated(); is_found) {
      state_.is_saturated = 1;
      state_.high = ideal;
      state_.low = std::min(state_.low, ideal);
    } else {
      state_.high = std::min(state_.high + 1, top_rung());
    }
  }
  /// Returns whether the two highest throughputs are equal up to `saturation`, and the lower one of the two factors.
  std::pair<bool, std::uint32_t> saturated() const {
    std::uint32_t best = dense, second = dense;
    for (std::uint32_t r = 0; r <= top_rung(); ++r) {
      if (!is_compared(state_.rungs[r])) continue;
      if (best == dense || state_.rungs[r].throughput > state_.rungs[best].throughput) {
        second = std::exchange(best, r);
      } else if (second == dense || state_.rungs[r].throughput > state_.rungs[second].throughput) {
        second = r;
      }
    }
    if (second == dense) return {false, 0};
    auto const less = state_.rungs[second].throughput;
    return {state_.rungs[best].throughput - less <= options_.saturation * less, std::min(best, second)};
  }
  bool is_compared(rung const& of) const {
    auto const fresh = std::uint64_t{options_.window} * options_.fresh_windows;
    return of.samples >= std::min(options_.samples, options_.window) && state_.step - of.last <= fresh;
  }

  gravac_options options_;
  gain_over over_;
  state state_;
};

/// gravac with kept energies divided by |g|^2, the energy of the gradients without residuals. If residuals do not grow,
/// and are uncorrelated with gradients, the energy that a factor sends is |g|^2. So the gain of the factor in use is about
/// 1, and the gain of a higher factor is the share of this energy that the higher factor would send.
class gravac_by_gradients : public gravac {
 public:
  using facets = ext::facets<ext::energies, ext::gradient_norms>;

  explicit gravac_by_gradients(gravac_options options = {}) : gravac(std::move(options), gain_over::gradient) {}
};

static_assert(rate_controller<gravac> && rate_controller<gravac_by_gradients>);

}}  // namespace pith::PITH_ABI
