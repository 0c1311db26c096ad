// pith/sparsify/sidco.hpp — sparsification by thresholds from distributions fitted to the magnitudes in stages.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/sparsify/detail/gamma_tail.hpp>
#include <pith/sparsify/threshold_estimator.hpp>

#include <cmath>
#include <string>
#include <type_traits>

namespace pith::inline v0 {

/// The model that sidco fits to all magnitudes, and in later stages to those above the last threshold.
enum class magnitudes : std::uint8_t {
  exponential,  ///< in every stage
  pareto,       ///< generalised, in every stage
  gamma,        ///< for all magnitudes, then generalised Pareto
};

namespace detail {

/// The threshold that a fraction e^ln_share of an exponential tail exceeds, measured from the smallest survivor.
PITH_HD inline double exponential_threshold(survivors const& of, double ln_share) {
  return of.smallest + apart(of.mean() - of.smallest, -ln_share);
}

/// The same for a generalised Pareto tail, by its mean m and variance: r = m^2 / variance, smallest + m (r + 1) / 2
/// (1 - share^shape) / shape with shape = (r - 1) / 2.
PITH_HD inline double pareto_threshold(survivors const& of, double ln_share) {
  auto const mean = of.mean(), excess = mean - of.smallest;
  auto const variance = (of.squares / of.count / mean / mean - 1) * mean * mean;
  if (!(variance > 0)) return exponential_threshold(of, ln_share);
  auto const ratio = excess * excess / variance, shape = (ratio - 1) / 2;
  if (magnitude(shape) < 1e-6) return exponential_threshold(of, ln_share);
  return of.smallest + excess * (ratio + 1) / 2 * (1 - exp_of(shape * ln_share)) / shape;
}

/// The same for a gamma distribution, by the mean and the mean logarithm. Magnitudes that are nearly equal use the
/// exponential one.
PITH_HD inline double gamma_threshold(survivors const& of, double ln_share) {
  auto const s = ln(of.mean()) - of.logs / of.count;
  if (!(s > 1.0 / 128)) return exponential_threshold(of, ln_share);
  auto const shape = (3 - s + sqrt(9 + apart(s, s + 18))) / (12 * s);
  return of.mean() / shape * gamma_quantile(shape, ln_share);
}

/// The state of sidco per tensor: the number of stages after the first, and over the steps since its last change the
/// sum of kept entries divided by the target.
struct sidco_memory {
  double kept;
  std::uint32_t more, steps;
};

template <magnitudes Model>
struct sidco_rule {
  using exponential = terms<how_many, magnitude_sum, least_magnitude>;
  using pareto = terms<how_many, magnitude_sum, square_sum, least_magnitude>;
  using later = std::conditional_t<Model == magnitudes::exponential, exponential, pareto>;
  using first = std::conditional_t<Model == magnitudes::gamma,
                                   terms<how_many, magnitude_sum, log_sum, least_magnitude, largest_magnitude>,
                                   terms<how_many, magnitude_sum, square_sum, least_magnitude, largest_magnitude>>;

  std::int32_t fixed, most;  ///< stages; 0: as many as the state says
  sidco_memory* memory = nullptr;

  /// One pass more than stages, and three for further stages if too many values still pass.
  PITH_HD unsigned passes() const { return static_cast<unsigned>(fixed > 0 ? fixed : most) + 4; }

  PITH_HD std::int32_t stages() const {
    if (fixed > 0) return fixed;
    return memory->more < static_cast<std::uint32_t>(most) ? static_cast<std::int32_t>(memory->more) + 1 : most;
  }

  PITH_HD double next(search& at, survivors const& of) const {
    auto const left = stages() - static_cast<std::int32_t>(at.pass);
    if (of.count <= (left > 0 ? at.aim : at.room)) return at.bound;
    auto const ln_left = ln(at.aim / of.count);
    if (at.pass > 0 || left == 1) return threshold(at, of, left > 1 ? ln_left / left : ln_left);
    constexpr double ln_quarter = -2 * (ln2_high + ln2_low);
    return threshold(at, of, ln_left > ln_quarter ? ln_left : ln_quarter);
  }

  /// Every five steps: one stage more if less than 4/5 or more than 6/5 of the target was kept.
  PITH_HD void learn(search const& at) const {
    if (at.pass < 2) return;  // all nonzero values fitted
    memory->kept += at.sent / at.aim;
    if (++memory->steps < 5) return;
    auto const now = static_cast<std::uint32_t>(stages()), most_more = static_cast<std::uint32_t>(most) - 1;
    auto const is_off = memory->kept < 4 || memory->kept > 6;
    *memory = {0, is_off && now <= most_more ? now : now - 1, 0};
  }

 private:
  PITH_HD double threshold(search const& at, survivors const& of, double ln_share) const {
    if constexpr (Model == magnitudes::gamma) {
      if (at.pass == 0) return gamma_threshold(of, ln_share);
    }
    return Model == magnitudes::exponential ? exponential_threshold(of, ln_share) : pareto_threshold(of, ln_share);
  }
};

template <class Rule>
struct learn_from {
  Rule rule;
  search const* at;
  PITH_HD void operator()(std::uint64_t) const { rule.learn(*at); }
};

}  // namespace detail

/// Keeps about k = max(1, floor(density n)) entries of largest magnitude: those in the tail of a distribution fitted to
/// the magnitudes. The first stage keeps a quarter. Each later stage fits the survivors, above their smallest, and
/// takes an equal ratio of the remaining reduction. As threshold_estimator, except:
///
///   state       without given stages their number: at first one; every five steps one more if less than 0.8 k or more
///               than 1.2 k were kept on average, up to ceil(log2(1 / density))
///   complexity  one pass per stage, up to three more if too many still pass, one to count the result; two to write.
///               For the gamma distribution one logarithm per value in the first pass; one thread computes its quantile
///   on NaN      as threshold_estimator; zeros are excluded from the fit
///   reference   Abdelmoniem, Elzanaty, Alouini and Canini, An Efficient Statistical-based Gradient Compression
///               Technique for Distributed Training Systems (SIDCo), MLSys 2021. Here a stage's ratio depends on the
///               count, so that it corrects earlier stages, and no stage is removed if too many are kept; zeros and the
///               survivors of another pass do no harm. The gamma quantile is exact, not an approximation for shapes
///               near 1; each tensor has its own number of stages
template <magnitudes Model = magnitudes::exponential>
class sidco : public threshold_estimator<detail::sidco_rule<Model>> {
  using engine = threshold_estimator<detail::sidco_rule<Model>>;

 public:
  /// With 0 stages the number is adapted.
  explicit sidco(double density, unsigned stages = 0)
      : engine("sidco", density, {static_cast<std::int32_t>(stages), most_stages(density)}) {
    detail::require(stages <= 32, "sidco: stages must be at most 32, got ", stages);
  }

  std::string name() const {
    constexpr auto model = Model == magnitudes::gamma    ? "gamma"
                           : Model == magnitudes::pareto ? "pareto"
                                                         : "exponential";
    auto const stages = this->rule().fixed;
    auto const first = detail::text("sidco(", detail::shortest(this->density()));
    if (stages > 0) return detail::text(first, ",", model, ",", stages, ")");
    return Model == magnitudes::exponential ? detail::text(first, ")") : detail::text(first, ",", model, ")");
  }
  sidco at(double density) const { return sidco(density, static_cast<unsigned>(this->rule().fixed)); }

  template <executor E>
  struct memory {
    buffer<detail::sidco_memory, E> of_steps;
    void fields(field_visitor& f) { f(of_steps); }
  };
  template <real In, executor E>
  memory<E> make_local(E const& exec, shape const&) const {
    return {{exec, 1}};
  }

  template <real In, executor E>
  void encode(E const& exec, shape const& dims, values_on<E, In const> x, encoded_on<E, In> y, memory<E>& local,
              workspace_on<E>& ws) const {
    auto rule = this->rule();
    rule.memory = local.of_steps.data();
    auto const* const at = this->template encode_by<In>(exec, rule, dims, x, y, ws);
    if (dims.n > 0) exec.for_each_index(1, detail::learn_from<detail::sidco_rule<Model>>{rule, at});
  }

 private:
  /// The engine rejects other densities later.
  static std::int32_t most_stages(double density) {
    return 0 < density && density <= 1 ? std::max(1, static_cast<std::int32_t>(std::ceil(-std::log2(density)))) : 1;
  }
};

static_assert(stage<sidco<>, float, archetype> && projection<sidco<>> && contractive<sidco<>>);
static_assert(variable_rate<sidco<>> && rate_adjustable<sidco<>> && !isometric<sidco<>>);

}  // namespace pith::inline v0
