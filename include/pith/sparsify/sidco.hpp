// pith/sparsify/sidco.hpp — sparsification by a threshold from distributions that are fitted in stages.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/core/option.hpp>
#include <pith/sparsify/detail/gamma_tail.hpp>
#include <pith/sparsify/threshold_estimator.hpp>

#include <cmath>
#include <string>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

/// The distribution that sidco fits in stages. The first stage fits the distribution to all magnitudes. Each later
/// stage fits the distribution to the survivors, which are the magnitudes that reach the threshold of the previous
/// stage.
enum class magnitudes : std::uint8_t {
  exponential,  ///< an exponential distribution in every stage
  pareto,       ///< a generalised Pareto distribution in every stage
  gamma,        ///< a gamma distribution in the first stage, then generalised Pareto
};

namespace options {
inline constexpr option<magnitudes::exponential> exponential = {};
inline constexpr option<magnitudes::pareto> pareto = {};
inline constexpr option<magnitudes::gamma> gamma = {};
}  // namespace options

namespace detail {

/// Returns the threshold that a fraction e^ln_share of the survivors exceeds, for an exponential distribution that
/// begins at the smallest survivor.
PITH_HD inline double exponential_threshold(survivors const& of, double ln_share) {
  return of.smallest + apart(of.mean() - of.smallest, -ln_share);
}

/// Returns the threshold that a fraction `share` = e^ln_share of the survivors exceeds, for a generalised Pareto
/// distribution. Let m = mean - smallest, r = m^2 / variance and shape = (r - 1) / 2. The threshold is
/// smallest + m (r + 1) / 2 (1 - share^shape) / shape.
PITH_HD inline double pareto_threshold(survivors const& of, double ln_share) {
  auto const mean = of.mean(), excess = mean - of.smallest;
  auto const variance = (of.squares / of.count / mean / mean - 1) * mean * mean;
  if (!(variance > 0)) return exponential_threshold(of, ln_share);
  auto const ratio = excess * excess / variance, shape = (ratio - 1) / 2;
  if (magnitude(shape) < 1e-6) return exponential_threshold(of, ln_share);
  return of.smallest + excess * (ratio + 1) / 2 * (1 - exp_of(shape * ln_share)) / shape;
}

/// Returns the threshold that a fraction e^ln_share of the survivors exceeds, for a gamma distribution that is fitted
/// to the mean and the mean logarithm. If magnitudes are nearly equal, the exponential distribution is used instead.
PITH_HD inline double gamma_threshold(survivors const& of, double ln_share) {
  auto const s = ln(of.mean()) - of.logs / of.count;
  if (!(s > 1.0 / 128)) return exponential_threshold(of, ln_share);
  auto const shape = (3 - s + sqrt(9 + apart(s, s + 18))) / (12 * s);
  return of.mean() / shape * gamma_quantile(shape, ln_share);
}

/// The state of sidco for one tensor. `more` is the number of stages after the first stage. Every five steps, `learn`
/// checks this number and sets the other two members to zero. `steps` is the number of steps since the last check.
/// `kept` is the sum of (kept entries / target) over these steps.
struct sidco_memory {
  double kept;
  std::uint32_t more, steps;
};

template <magnitudes Model>
struct sidco_rule {
  using exponential = terms<how_many, magnitude_sum, min_magnitude>;
  using pareto = terms<how_many, magnitude_sum, square_sum, min_magnitude>;
  using later = std::conditional_t<Model == magnitudes::exponential, exponential, pareto>;
  using first = std::conditional_t<Model == magnitudes::gamma,
                                   terms<how_many, magnitude_sum, log_sum, min_magnitude, largest_magnitude>,
                                   terms<how_many, magnitude_sum, square_sum, min_magnitude, largest_magnitude>>;

  std::int32_t fixed, most;  ///< the fixed number of stages (0: the number is in `memory`); the largest number
  sidco_memory* memory = nullptr;

  /// The largest number of passes: one per stage, one to count the kept entries, and up to three additional stages if
  /// too many values reach the last threshold.
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

  /// Every five steps, adds a stage if the average number of kept entries is below 4/5 or above 6/5 of the target.
  PITH_HD void learn(search const& at) const {
    if (at.pass < 2) return;  // all nonzero values fit into the payload
    memory->kept += at.sent / at.aim;
    if (++memory->steps < 5) return;
    auto const now = static_cast<std::uint32_t>(stages()), max_more = static_cast<std::uint32_t>(most) - 1;
    auto const is_off = memory->kept < 4 || memory->kept > 6;
    *memory = {0, is_off && now <= max_more ? now : now - 1, 0};
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

/// Keeps about k entries of largest magnitude, where k = max(1, floor(density n)). The threshold is computed from a
/// distribution that is fitted to the magnitudes, in one or more stages. If there are several stages, the threshold of
/// the first stage keeps a quarter of the entries, or k entries if k is larger. Each later stage fits a distribution to
/// the entries that the previous stage kept. The later stages reduce the number of entries by equal factors. The
/// following properties differ from those of `threshold_estimator`:
///
///   state       the number of stages, if the constructor does not fix this number. Initially there is one stage. Every
///               five steps, one stage is added if less than 0.8 k or more than 1.2 k entries were kept on average.
///               There are at most ceil(log2(1 / density)) stages
///   complexity  one pass per stage, up to three more if too many entries pass, one to count the result, and two to
///               write. For the gamma distribution, the first pass computes one logarithm per value, and one thread
///               computes the quantile
///   on NaN      as threshold_estimator. Zeros are also excluded from the fit
///   errors      for double, squares of magnitudes above 1e154 overflow, and those below 1e-162 underflow. Pareto
///               stages then fit an exponential distribution
///   reference   Abdelmoniem, Elzanaty, Alouini and Canini, An Efficient Statistical-based Gradient Compression
///               Technique for Distributed Training Systems (SIDCo), MLSys 2021, with differences. The fraction of
///               entries that a stage keeps depends on the number of survivors, so that later stages correct errors of
///               earlier stages. No stage is removed if too many entries are kept. The gamma quantile is exact, instead
///               of an approximation for shapes near 1. Each tensor has its own number of stages
template <magnitudes Model = magnitudes::exponential>
class sidco : public threshold_estimator<detail::sidco_rule<Model>> {
  using engine = threshold_estimator<detail::sidco_rule<Model>>;

 public:
  using facets = ext::facets<ext::rate>;

  /// If `stages` is 0, the number of stages adapts to the data.
  explicit sidco(double density, option<Model> = {}, unsigned stages = 0)
      : engine("sidco", density, {static_cast<std::int32_t>(stages), max_stages(density)}) {
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
  sidco at(double density) const { return sidco(density, {}, static_cast<unsigned>(this->rule().fixed)); }

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
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y, no_state const&,
              memory<E>& local) const {
    auto rule = this->rule();
    rule.memory = local.of_steps.data();
    auto const* const at = this->template encode_by<In>(cx.exec, rule, cx.dims, x, y, cx.ws);
    if (cx.dims.n > 0) cx.exec.for_each_index(1, detail::learn_from<detail::sidco_rule<Model>>{rule, at});
  }

 private:
  /// Returns 1 for an invalid density, for which the constructor of the engine throws.
  static std::int32_t max_stages(double density) {
    return 0 < density && density <= 1 ? std::max(1, static_cast<std::int32_t>(std::ceil(-std::log2(density)))) : 1;
  }
};

static_assert(stage<sidco<>, float, archetype> && promises_of<sidco<>>.contractive);
static_assert(detail::rate_adjustable<sidco<>>);

}}  // namespace pith::PITH_ABI
