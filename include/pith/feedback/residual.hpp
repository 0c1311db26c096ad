// pith/feedback/residual.hpp — error feedback: the compression error of a step is added to the next gradient.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/source.hpp>
#include <pith/feedback/feedback.hpp>

#include <concepts>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Sets p to the gradient plus the residual.
template <class In, class Stored = accum<In>>
struct add_residual {
  In const* g;
  Stored const* residual;
  accum<In>* p;
  PITH_HD void operator()(std::uint64_t i) const { p[i] = sum(residual[i], g[i]); }
  template <class Run>
  PITH_HD void operator()(std::uint64_t i, Run const& run) const {
    auto const x = run.read(g + i);
    auto const old = run.read(residual + i);
    run.write(p + i, [&](std::uint32_t lane) { return sum(old[lane], x[lane]); });
  }
  bool are_aligned() const { return is_vector_aligned(g) && is_vector_aligned(residual) && is_vector_aligned(p); }

 private:
  PITH_HD static accum<In> sum(Stored e, In x) { return element_cast<accum<In>>(e) + element_cast<accum<In>>(x); }
};

/// Sets the residual to beta (p - sent) where p - sent is finite, and to bounded_residual(residual) elsewhere
/// (core/source.hpp). A product that would be infinite is the largest finite number.
template <class A, class Stored = A>
struct keep_unsent {
  A const* p;
  A const* sent;
  Stored* residual;
  A beta;
  PITH_HD void operator()(std::uint64_t i) const { residual[i] = kept(p[i] - sent[i], residual[i]); }
  template <class Run>
  PITH_HD void operator()(std::uint64_t i, Run const& run) const {
    auto const of = run.read(p + i);
    auto const less = run.read(sent + i);
    auto const old = run.read(residual + i);
    run.write(residual + i, [&](std::uint32_t lane) { return kept(of[lane] - less[lane], old[lane]); });
  }
  bool are_aligned() const { return is_vector_aligned(p) && is_vector_aligned(sent) && is_vector_aligned(residual); }

 private:
  PITH_HD Stored kept(A unsent, Stored old) const {
    return saturated_cast<Stored>(is_finite(unsent) ? bounded_product(beta, unsent)
                                                    : bounded_residual(element_cast<A>(old)));
  }
};

/// The factors beta and gamma of a residual. Only with beta = gamma = 1 can an engine read p from `source` while it
/// encodes.
struct unit_weights {
  static constexpr double beta = 1, gamma = 1;
  static constexpr bool has_source() { return true; }
};
struct chosen_weights {
  double beta = 1, gamma = 1;
  bool has_source() const { return beta == 1 && gamma == 1; }
};

/// The elements of a residual have the type accum<In>.
struct accumulated {};

template <class Stored>
using residual_weights = std::conditional_t<std::same_as<Stored, accumulated>, unit_weights, chosen_weights>;

}  // namespace detail

namespace ext {
using detail::add_residual;
}

/// `residual(beta, gamma)` encodes p = e + gamma g, and sets e = beta (p - D(C(p))), where D(C(p)) is the decoded
/// payload. Initially e = 0. `residual()` has beta = gamma = 1. Then the sum of the decoded payloads plus e equals the
/// sum of the gradients.
///
/// `residual<bfloat16>` stores e in 2 bytes per element, rounded to nearest. The rounding error of a step is lost. It is
/// at most 2^-8 |e|, where |e| is in the normal range of bfloat16, 2^-126 to 2^128. A gradient element below 2^-9 |e| is
/// lost completely, so a sparse codec must send about 1 % of the elements or more.
///
///   requires    beta and gamma in [-1e30, 1e30] (std::invalid_argument)
///   state       n elements of accum<In>, or of bfloat16, rank-local
///   complexity  with beta = gamma = 1, one pass with a codec that encodes from a source. residual<bfloat16> runs in
///               separate passes with sparsifiers, and with every codec in a text
///   on NaN      where a gradient or its decoded value is NaN or infinite, a residual of at most 2^47 (2^495 for
///               doubles) stays unchanged. A larger residual becomes 0, because its square may have overflowed in a sum
///   reference   Seide, Fu, Droppo, Li and Yu, 1-Bit SGD, Interspeech 2014. beta and gamma are those of GRACE, but
///               GRACE's PyTorch code omits gamma in the first step (p = g)
template <class Stored = detail::accumulated, class Weights = detail::residual_weights<Stored>>
class residual : private Weights {
  static constexpr bool is_wide = std::same_as<Stored, detail::accumulated>;
  static_assert(is_wide || std::same_as<Stored, bfloat16>, "pith: residual<T> stores a residual only as T = bfloat16");
  template <class A>
  using stored = std::conditional_t<is_wide, A, Stored>;

 public:
  using facets = ext::facets<ext::fused, ext::unsent, ext::kept_residual>;

  /// True, because each product is stored before it is added, so that p is bitwise equal on all executors.
  static constexpr bool is_reproducible = true;

  constexpr residual() = default;
  explicit constexpr residual(double of_residual, double of_gradient = 1)
      : Weights(weights(of_residual, of_gradient)) {}

  template <class A, executor E>
  struct local {
    buffer<stored<A>, E> residual;
    void fields(field_visitor& f) { f(residual); }
  };

  std::string name() const { return named(is_wide ? "residual" : "residual<bfloat16>"); }

  template <real In, executor E>
  local<accum<In>, E> make_local(E const& exec, shape const& dims) const {
    return {buffer<stored<accum<In>>, E>(exec, dims.n)};
  }

  using Weights::has_source;
  template <real In, executor E>
  ext::residual_source<In, stored<accum<In>>> source(values_on<E, In const> g, local<accum<In>, E>& mine) const {
    return {g.data, mine.residual.data()};
  }

  template <real In, executor E>
  void compensate(context<In, E> const& cx, values_on<E, In const> g, values_on<E, accum<In>> p,
                  local<accum<In>, E> const& mine) const {
    using A = accum<In>;
    if (this->gamma == 1) {
      using sum = detail::add_residual<In, stored<A>>;
      return cx.exec.for_each_index(cx.dims.n, sum{g.data, mine.residual.data(), p.data});
    }
    cx.exec.for_each_index(cx.dims.n, detail::scale<A, In>{g.data, p.data, static_cast<A>(this->gamma)});
    cx.exec.for_each_index(cx.dims.n, detail::add<A, stored<A>>{mine.residual.data(), p.data});
  }
  template <real In, executor E>
  void update(context<In, E> const& cx, values_on<E, accum<In> const> p, values_on<E, accum<In> const> sent,
              local<accum<In>, E>& mine) const {
    using A = accum<In>;
    using keep = detail::keep_unsent<A, stored<A>>;
    cx.exec.for_each_index(cx.dims.n, keep{p.data, sent.data, mine.residual.data(), static_cast<A>(this->beta)});
  }
  template <real In, executor E>
  void add_unsent(context<In, E> const& cx, values_on<E, accum<In>> unsent, local<accum<In>, E>& mine) const {
    add_times(cx, unsent, this->beta, mine);
  }
  auto& residual_in(auto& mine) const { return mine.residual; }
  template <class A, executor E>
  void rescale(E const& exec, double factor, no_state&, local<A, E>& mine) const {
    detail::rescale_buffer(exec, factor, mine.residual);
  }

 protected:
  /// Adds factor * unsent to the residual. Overwrites `unsent`.
  template <real In, executor E>
  void add_times(context<In, E> const& cx, values_on<E, accum<In>> unsent, double factor,
                 local<accum<In>, E>& mine) const {
    using A = accum<In>;
    if (factor != 1)
      cx.exec.for_each_index(cx.dims.n, detail::scale<A, A>{unsent.data, unsent.data, static_cast<A>(factor)});
    cx.exec.for_each_index(cx.dims.n, detail::add<stored<A>, A>{unsent.data, mine.residual.data()});
  }

  std::string named(char const* word) const {
    if (this->beta == 1 && this->gamma == 1) return word;
    return detail::text(word, "(", detail::shortest(this->beta), ",", detail::shortest(this->gamma), ")");
  }

 private:
  static constexpr Weights weights([[maybe_unused]] double of_residual, [[maybe_unused]] double of_gradient) {
    if constexpr (std::same_as<Weights, detail::unit_weights>) {
      static_assert(!std::same_as<Weights, detail::unit_weights>,
                    "pith: residual<> has no factors: write residual(beta, gamma), without template arguments");
      return {};
    } else {
      require_factor("beta", of_residual);
      require_factor("gamma", of_gradient);
      return {of_residual, of_gradient};
    }
  }
  static constexpr void require_factor(char const* factor, double value) {
    detail::require(-1e30 <= value && value <= 1e30, "residual: ", factor, " must be in [-1e30, 1e30], got ", value);
  }
};

residual(double)->residual<detail::accumulated, detail::chosen_weights>;
residual(double, double)->residual<detail::accumulated, detail::chosen_weights>;

static_assert(feedback<residual<>, float, archetype> && feedback<residual<bfloat16>, float, archetype>);

}}  // namespace pith::PITH_ABI
