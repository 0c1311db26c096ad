// pith/sparsify/sidco.hpp — keep what a distribution fitted to the magnitudes, and to its tail again, says is in its tail.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/sparsify/detail/gamma_tail.hpp>
#include <pith/sparsify/threshold_estimator.hpp>

#include <cmath>
#include <string>
#include <type_traits>

namespace pith::inline v0 {

/// What sidco fits: to all magnitudes, and in later stages to what is above the last threshold.
enum class magnitudes : std::uint8_t {
  exponential,  ///< in every stage
  pareto,       ///< generalised, in every stage
  gamma,        ///< to all magnitudes, then generalised Pareto
};

namespace detail {

/// The threshold that a share e^ln_share of an exponential tail exceeds, measured from the smallest survivor.
PITH_HD inline double exponential_threshold(survivors const& of, double ln_share) {
  return of.smallest + apart(of.mean() - of.smallest, -ln_share);
}

/// ... of a generalised Pareto tail: by its mean m and variance, r = m^2 / variance, smallest + m (r + 1) / 2
/// (1 - share^shape) / shape where shape = (r - 1) / 2.
PITH_HD inline double pareto_threshold(survivors const& of, double ln_share) {
  auto const mean = of.mean(), excess = mean - of.smallest;
  auto const variance = (of.squares / of.count / mean / mean - 1) * mean * mean;
  if (!(variance > 0)) return exponential_threshold(of, ln_share);
  auto const ratio = excess * excess / variance, shape = (ratio - 1) / 2;
  if (magnitude(shape) < 1e-6) return exponential_threshold(of, ln_share);
  return of.smallest + excess * (ratio + 1) / 2 * (1 - exp_of(shape * ln_share)) / shape;
}

/// ... of a gamma distribution, by the mean and the mean logarithm. Of magnitudes that are nearly equal, an exponential
/// one.
PITH_HD inline double gamma_threshold(survivors const& of, double ln_share) {
  auto const s = ln(of.mean()) - of.logs / of.count;
  if (!(s > 1.0 / 128)) return exponential_threshold(of, ln_share);
  auto const shape = (3 - s + sqrt(9 + apart(s, s + 18))) / (12 * s);
  return of.mean() / shape * gamma_quantile(shape, ln_share);
}

/// What sidco remembers of a tensor: how many stages it takes beside the first one, and of the steps since that was
/// changed the sum of what was kept, in parts of what was sought.
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

  std::int32_t fixed, most;  ///< stages; 0: as many as the memory says
  sidco_memory* memory = nullptr;

  /// A pass more than there are stages, and three for stages behind those where too many still pass.
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

  /// Every five steps a stage more where less than 4/5 of what was sought was kept, or more than 6/5.
  PITH_HD void learn(search const& at) const {
    if (at.pass < 2) return;  // there was nothing to leave out
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

/// Keeps about k = max(1, floor(density n)) entries of largest magnitude: those in the tail of a distribution that is
/// fitted to the magnitudes, a quarter of them, and then in stages to what is left, each above its smallest. A stage
/// goes as far as there is to go by what was counted, divided by the stages left.
///
///   emits, needs, errors, is    what threshold_estimator says; zeros are no part of the fit
///   state       where stages are not said, their number: at first one, every five steps one more where less than 0.8 k
///               or more than 1.2 k were kept in the mean, up to ceil(log2(1 / density))
///   complexity  one pass for each stage, up to three more where too many pass still, one to see it; two to write. A
///               logarithm a value in the first pass for the gamma distribution, whose quantile one thread computes
///   reference   Abdelmoniem, Elzanaty, Alouini and Canini, An Efficient Statistical-based Gradient Compression
///               Technique for Distributed Training Systems (SIDCo), MLSys 2021. Shares of stages are of what was
///               counted, not fixed: so a stage makes good what the ones before it missed, and none is taken back where
///               too many are kept; zeros, and the survivors of another pass, do no harm. The gamma quantile is exact,
///               not for shapes near 1; the number of stages is a tensor's own
template <magnitudes Model = magnitudes::exponential>
class sidco : public threshold_estimator<detail::sidco_rule<Model>> {
  using engine = threshold_estimator<detail::sidco_rule<Model>>;

 public:
  /// Of 0 stages the number is learnt.
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
  /// The engine refuses other densities later.
  static std::int32_t most_stages(double density) {
    return 0 < density && density <= 1 ? std::max(1, static_cast<std::int32_t>(std::ceil(-std::log2(density)))) : 1;
  }
};

static_assert(stage<sidco<>, float, archetype> && projection<sidco<>> && contractive<sidco<>>);
static_assert(variable_rate<sidco<>> && rate_adjustable<sidco<>> && !isometric<sidco<>>);

}  // namespace pith::inline v0
