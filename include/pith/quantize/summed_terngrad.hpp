// pith/quantize/summed_terngrad.hpp — TernGrad with one scale for all ranks, so that an all-reduce can sum the symbols.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/core/detail/split_factor.hpp>
#include <pith/core/detail/summation.hpp>
#include <pith/quantize/detail/summed_levels.hpp>
#include <pith/quantize/terngrad.hpp>

#include <cmath>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Returns the contribution of element i to the statistic.
template <class Rule, class In>
struct measured {
  Rule rule;
  In const* x;
  PITH_HD auto operator()(std::uint64_t i) const { return rule.measure(element_cast<accum<In>>(x[i])); }
};

/// A NaN scale is sent as infinity, because the maximum over the ranks may drop NaN.
template <class Rule, class A>
struct offer_scale {
  Rule rule;
  statistic_of<Rule, A> const* statistic;
  std::uint64_t n;
  A* to;
  PITH_HD void operator()(std::uint64_t) const {
    auto const scale = rule.finish(*statistic, n, A{});
    *to = is_finite(scale) ? scale : A{INFINITY};
  }
};
template <class A>
struct take_scale {
  A const* most;
  A* to;
  PITH_HD void operator()(std::uint64_t) const { *to = finite_or_nan(*most); }
};

/// Sets x to the product of `share`, the scale and the ranks' sum of levels. A level is the integer -1, 0 or 1 that a
/// symbol represents.
template <class In, class Level>
struct scale_levels {
  using A = accum<In>;
  Level const* levels;
  A const* scale;
  split_factor<A> share;
  In* x;
  PITH_HD void operator()(std::uint64_t i) const {
    x[i] = saturated_cast<In>(share.of(static_cast<A>(levels[i]) * (*scale * share.before)));
  }
};

}  // namespace detail

/// A variant of terngrad for communicators with a fast all-reduce. An exchange computes the maximum of the ranks'
/// scales, then the sum of the symbols, which are -1, 0 or 1. A symbol takes one byte for up to 127 ranks, and four
/// bytes for more ranks.
///
///   emits       outside an exchange, as terngrad
///   requires    sigma >= 0 (default 2.5; 0 disables clipping). Each rank clips its scale before the maximum is
///               computed
///   state       replicated: the scale
///   complexity  two rounds: a maximum of one value, and a sum; reads x twice; scratch memory of 24 bytes (for moments)
///               per tile of 16,384 elements
///   on NaN      a single NaN or infinity on any rank makes the mean NaN on all ranks
///   errors      as terngrad
///   properties  in a chain after summable stages, as in pca(basis) | summed_terngrad(), an exchange also sums the
///               symbols. Such a chain encodes x in both rounds. Unbiased for the clipped gradient. There is no error
///               bound for the x of one rank, because another rank may determine the scale
///   reference   Wen et al., TernGrad, NeurIPS 2017, section 4 ("scaler sharing")
class summed_terngrad : public codec_base {
 public:
  using facets = ext::facets<ext::rounds, ext::share>;

  template <class In>
  using output = packed<2>;

  static constexpr codec_traits traits = {.reproducible = true, .keeps_for_exchange = true, .sums_in_chains = true};

  explicit summed_terngrad(double sigma = 2.5) : alone_(sigma) {}

  std::string name() const { return detail::text("summed_", alone_.name()); }

  template <class A, executor E>
  struct shared_scale {
    buffer<A, E> scale;
    void fields(field_visitor& f) { f(scale); }
  };
  template <class In, class E>
  using state = shared_scale<accum<In>, E>;

  template <real In, executor E>
  state<In, E> make_replicated(E const& exec, encoding_id const&, shape const&) const {
    return {{exec, 1}};
  }

  template <real In>
  std::size_t side_bytes(shape const& dims) const {
    return alone_.side_bytes<In>(dims);
  }
  template <real In, executor E>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return alone_.scratch_bytes<In>(exec, dims);
  }
  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, packed<2>> y) const {
    alone_.encode(cx, x, y);
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, packed<2> const> y, values_on<E, In> x) const {
    alone_.decode(cx, y, x);
  }

  unsigned rounds(shape const&, unsigned) const { return 2; }
  template <real In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const {
    if (r == 0) return {transport::all_reduce_max, kind_of<accum<In>>(), 1};
    return {transport::all_reduce_sum, detail::level_kind(ranks), dims.n};
  }
  template <real In, executor E>
  std::size_t exchange_scratch_bytes(E const&, shape const& dims, unsigned) const {
    return scratch_for<moments>(1) + detail::reduce_scratch_bytes<moments>(dims.n);
  }

  template <real In, executor E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               state<In, E> const& replicated, no_state&) const {
    if (round == 0) return offer(cx, x, side_as<accum<In>>(out));
    detail::with_level(cx.ranks, [&]<class Level>(Level) {
      using body = detail::write_levels<rule_type, In, Level, E::items_per_block>;
      auto* const to = side_as<Level>(out);
      cx.exec.for_each_block(detail::blocks_for(cx.dims.n, E::items_per_block),
                             body{alone_.rule(), draws(cx.id), replicated.scale.data(), x.data, to, cx.dims.n});
    });
  }
  template <real In, executor E>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x, state<In, E>& replicated,
              no_state&) const {
    using A = accum<In>;
    auto* const scale = replicated.scale.data();
    if (round == 0) return cx.exec.for_each_index(1, detail::take_scale<A>{side_as<A>(in.bytes), scale});
    decode_levels<In>(cx.exec, cx.dims, cx.ranks, in.bytes, scale,
                      detail::split_factor(A{1} / static_cast<A>(cx.ranks), cx.ranks), x);
  }
  template <real In, executor E>
  void contribution(context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
                    state<In, E> const& replicated) const {
    decode_levels<In>(cx.exec, cx.dims, cx.ranks, produced, replicated.scale.data(),
                      detail::split_factor(accum<In>{1}, 1), sent);
  }

 private:
  using rule_type = detail::terngrad_rule;
  using moments = rule_type::moments;

  template <class In, class E>
  void offer(context<In, E> const& cx, values_on<E, In const> x, accum<In>* to) const {
    auto const& rule = alone_.rule();
    auto* const all = cx.ws.template take<moments>(1).data;
    detail::reduce_into(cx.exec, all, cx.dims.n, detail::measured<rule_type, In>{rule, x.data},
                        detail::merged<rule_type>{rule}, moments{}, cx.ws);
    cx.exec.for_each_index(1, detail::offer_scale<rule_type, accum<In>>{rule, all, cx.dims.n, to});
  }
  template <class In, class E>
  void decode_levels(E const& exec, shape const& dims, unsigned ranks, span_on<E, std::byte const> sums,
                     accum<In> const* scale, detail::split_factor<accum<In>> share, values_on<E, In> x) const {
    detail::with_level(ranks, [&]<class Level>(Level) {
      exec.for_each_index(dims.n, detail::scale_levels<In, Level>{side_as<Level>(sums), scale, share, x.data});
    });
  }

  terngrad<> alone_;
};

static_assert(stage<summed_terngrad, float, archetype>);
static_assert(collective<summed_terngrad, float, archetype> && !promises_of<summed_terngrad>.unbiased);

}}  // namespace pith::PITH_ABI
