// pith/feedback/ef21.hpp — feedback that encodes the difference between a gradient and an estimate of this gradient.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/error.hpp>
#include <pith/feedback/feedback.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

template <class In>
struct differ {
  In const* g;
  accum<In> const* estimate;
  accum<In>* p;
  PITH_HD void operator()(std::uint64_t i) const { p[i] = element_cast<accum<In>>(g[i]) - estimate[i]; }
};

/// Sets `average` to `decay` times (p + estimate) where the result is finite. The sum p + estimate is the running mean
/// from which p was computed.
template <class A>
struct keep_average {
  A const* p;
  A const* estimate;
  A* average;
  A decay;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const v = p[i] + estimate[i];
    average[i] = is_finite(v) ? decay * v : average[i];
  }
};

/// Adds `sent` to the estimate where the sum is finite.
template <class A>
struct add_finite {
  A const* sent;
  A* estimate;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const sum = estimate[i] + sent[i];
    estimate[i] = is_finite(sum) ? sum : estimate[i];
  }
};

/// Adds the decoded mean to the replicated estimate, and writes the sum to `mean` as the result of the exchange. The
/// replicated estimate must equal the mean of the ranks' own estimates, which are finite. So if the sum is NaN or
/// infinite, the replicated estimate and all ranks' own estimates of the element are reset to zero.
template <class A>
struct settle_estimate {
  A* mean;
  A* replicated;
  A* own;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const sum = replicated[i] + mean[i];
    mean[i] = sum;
    replicated[i] = is_finite(sum) ? sum : 0;
    own[i] = is_finite(sum) ? own[i] : 0;
  }
};

}  // namespace detail

/// Encodes g - e, where e is an estimate of this rank's gradient g. Then adds the decoded value to e. The exchange
/// returns the mean of the ranks' estimates. With eta < 1, a running mean v replaces g: v = (1 - eta) v + eta g
/// (EF21-SGDM). Estimates start at 0. Rescale the estimates for a new loss scale, but not for a new learning rate,
/// because an estimate is an approximate gradient, which does not contain the learning rate.
///
///   requires    0 < eta <= 1 (std::invalid_argument). For noisy gradients, about 0.1 is suitable
///   state       replicated: the mean of the estimates, n elements of accum<In>; rank-local: e, n elements of
///               accum<In>, and with eta < 1 also v, another n elements
///   on NaN      where the mean is NaN or infinite, all estimates are reset to 0. Where a rank's g is NaN or infinite,
///               that rank's v stays unchanged
///   properties  outside an exchange, decompress returns the decoded difference g - e
///   reference   Richtarik, Sokolov and Fatkhullin, EF21, NeurIPS 2021; Fatkhullin, Tyurin and Richtarik, Momentum
///               Provably Improves Error Feedback, NeurIPS 2023. In these papers, the ranks send the first gradient
///               uncompressed
class ef21 {
 public:
  using facets = ext::facets<ext::after_mean, ext::momentum, ext::no_debt>;

  static constexpr bool is_reproducible = true;

  explicit ef21(double eta = 1) : eta_(eta) {
    detail::require(0 < eta && eta <= 1, "ef21: eta must be in (0, 1], got ", eta);
  }

  template <class A, executor E>
  struct replicated {
    buffer<A, E> estimate;
    void fields(field_visitor& f) { f(estimate, field_kind::mean); }
  };
  template <class A, executor E>
  struct local {
    buffer<A, E> estimate, average;
    void fields(field_visitor& f) { f(estimate, field_kind::estimate), f(average); }
  };

  std::string name() const { return averages() ? detail::text("ef21(", detail::shortest(eta_), ")") : "ef21"; }
  bool changes_gradients() const { return averages(); }

  template <real In, executor E>
  replicated<accum<In>, E> make_replicated(E const& exec, encoding_id const&, shape const& dims) const {
    return {buffer<accum<In>, E>(exec, dims.n)};
  }
  template <real In, executor E>
  local<accum<In>, E> make_local(E const& exec, shape const& dims) const {
    return {buffer<accum<In>, E>(exec, dims.n), buffer<accum<In>, E>(exec, averages() ? dims.n : 0)};
  }

  template <real In, executor E>
  void compensate(context<In, E> const& cx, values_on<E, In const> g, values_on<E, accum<In>> p,
                  local<accum<In>, E> const& mine) const {
    using A = accum<In>;
    auto const* const estimate = mine.estimate.data();
    if (!averages()) return cx.exec.for_each_index(cx.dims.n, detail::differ<In>{g.data, estimate, p.data});
    cx.exec.for_each_index(cx.dims.n, detail::scale<A, In>{g.data, p.data, static_cast<A>(eta_)});
    cx.exec.for_each_index(cx.dims.n, detail::add<A, A>{mine.average.data(), p.data});
    cx.exec.for_each_index(cx.dims.n, detail::differ<A>{p.data, estimate, p.data});
  }
  template <real In, executor E>
  void update(context<In, E> const& cx, values_on<E, accum<In> const> p, values_on<E, accum<In> const> sent,
              local<accum<In>, E>& mine) const {
    using A = accum<In>;
    auto* const estimate = mine.estimate.data();
    if (averages()) {
      auto const decay = static_cast<A>(1 - eta_);
      cx.exec.for_each_index(cx.dims.n, detail::keep_average<A>{p.data, estimate, mine.average.data(), decay});
    }
    cx.exec.for_each_index(cx.dims.n, detail::add_finite<A>{sent.data, estimate});
  }
  template <real In, executor E>
  void after_exchange(context<In, E> const& cx, values_on<E, accum<In>> mean, replicated<accum<In>, E>& all,
                      local<accum<In>, E>& mine) const {
    using A = accum<In>;
    cx.exec.for_each_index(cx.dims.n, detail::settle_estimate<A>{mean.data, all.estimate.data(), mine.estimate.data()});
  }
  template <class A, executor E>
  void rescale(E const& exec, double factor, replicated<A, E>& all, local<A, E>& mine) const {
    detail::rescale_buffer(exec, factor, all.estimate);
    detail::rescale_buffer(exec, factor, mine.estimate);
    detail::rescale_buffer(exec, factor, mine.average);
  }

 private:
  bool averages() const { return eta_ < 1; }

  double eta_;
};

static_assert(feedback<ef21, float, archetype> && detail::has_after_exchange<ef21, float, archetype>);

}}  // namespace pith::PITH_ABI
