// pith/quantize/sign.hpp — one bit per element, and a majority vote of the ranks.
#pragma once

#include <pith/quantize/detail/sign_symbols.hpp>
#include <pith/quantize/majority.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

struct sign_rule : sign_symbols {
  template <class A>
  PITH_HD A value(std::uint32_t symbol, unscaled<A>) const {
    return 1 - 2 * static_cast<A>(symbol);
  }
  /// The integer that represents a symbol in an all-reduce.
  PITH_HD std::int32_t level(std::uint32_t symbol) const { return symbol == 0 ? 1 : -1; }
};

}  // namespace detail

/// Encodes the sign of each element. A sign decodes to +1 or -1. An exchange returns the majority of the ranks' signs.
///
///   emits       n symbols of 1 bit; no side information
///   requires    a learning rate suitable for steps of size 1, because the payload has no scale
///   complexity  one read of x. The vote is counted in bit planes, for 64 elements at once
///   on NaN      zero and NaN count as positive. A sign cannot represent NaN, so callers should check gradients before
///               encoding
///   properties  signs do not estimate x, so error feedback requires `unverified`. An exchange returns the majority
///               instead of the mean; with ties::zero, equal numbers of votes give 0. If another stage precedes `sign`
///               in a chain, an exchange returns the mean of the signs instead
///   reference   Bernstein, Wang, Azizzadenesheli and Anandkumar, signSGD, ICML 2018, and signSGD with Majority Vote,
///               ICLR 2019
class sign : public scalar_quantizer<detail::sign_rule> {
 public:
  static constexpr codec_traits traits = {.reproducible = true, .votes = true};

  explicit constexpr sign(ties even = ties::positive) : scalar_quantizer(detail::sign_rule()), even_(even) {}

  std::string name() const { return even_ == ties::positive ? "sign" : "sign(zero)"; }
  constexpr ties even() const { return even_; }

  /// Sets x to the majority of the ranks' signs. The factor is not used, because scaling does not change a majority.
  template <real In, executor E>
  void decode_ranks(context<In, E> const& cx, gathered_on<E, packed<1>> in, accum<In>, values_on<E, In> x) const {
    using body = detail::count_votes<In, E::items_per_block>;
    cx.exec.for_each_block(detail::blocks_for(cx.dims.n, E::items_per_block),
                           body{in.values.data, in.stride, in.ranks, even_, x.data, cx.dims.n});
  }

 private:
  ties even_;
};

static_assert(stage<sign, float, archetype> && detail::decodes_ranks<sign, float, archetype>);
static_assert(!promises_of<sign>.unbiased && !promises_of<sign>.contractive);

}}  // namespace pith::PITH_ABI
