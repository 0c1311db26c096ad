// pith/quantize/summed_sign.hpp — majority votes, computed by an all-reduce that sums signs.
#pragma once

#include <pith/quantize/detail/summed_levels.hpp>
#include <pith/quantize/sign.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Sets x to the majority of the votes +1 and -1, given the sum of the votes.
template <class In, class Level>
struct judge_votes {
  Level const* sums;
  ties even;
  In* x;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const for_it = sums[i] > 0 || (sums[i] == 0 && even == ties::positive) ? 1 : 0;
    x[i] = element_cast<In>(static_cast<accum<In>>(for_it - (sums[i] < 0 ? 1 : 0)));
  }
};

}  // namespace detail

/// A variant of sign for communicators whose all-reduce is faster than their all-gather. An exchange is one all-reduce
/// that sums the votes. A vote takes one byte per element for up to 127 ranks, and four bytes for more ranks.
///
///   emits       as sign
///   complexity  one read of x and one read of the sum; no scratch memory. The all-gather of `sign` moves n / 8 bytes
///               from each rank. For fewer than 8 ranks, these payloads together are smaller than the n bytes of votes
///   properties  as sign, with the same result in an exchange. In a chain after summable stages, an exchange also sums
///               the votes, and the summable stages then decode the majority
///   reference   Bernstein, Zhao, Azizzadenesheli and Anandkumar, signSGD with Majority Vote, ICLR 2019
class summed_sign : public sign {
 public:
  using facets = ext::facets<ext::rounds, ext::share>;

  using sign::sign;

  static constexpr codec_traits traits = {.reproducible = true, .votes = true, .sums_in_chains = true};

  std::string name() const { return detail::text("summed_", sign::name()); }

  template <real In>
  transfer round(unsigned, shape const& dims, unsigned ranks) const {
    return {transport::all_reduce_sum, detail::level_kind(ranks), dims.n};
  }
  template <real In, executor E>
  std::size_t exchange_scratch_bytes(E const&, shape const&, unsigned) const {
    return 0;
  }

  template <real In, executor E>
  void produce(context<In, E> const& cx, unsigned, values_on<E, In const> x, span_on<E, std::byte> out, no_state const&,
               no_state&) const {
    detail::with_level(cx.ranks, [&]<class Level>(Level) {
      using body = detail::write_levels<detail::sign_rule, In, Level, E::items_per_block>;
      auto* const votes = side_as<Level>(out);
      cx.exec.for_each_block(detail::blocks_for(cx.dims.n, E::items_per_block),
                             body{rule(), draws(cx.id), nullptr, x.data, votes, cx.dims.n});
    });
  }
  template <real In, executor E>
  void absorb(context<In, E> const& cx, unsigned, received_on<E> in, values_on<E, In> x, no_state&, no_state&) const {
    judge(cx.exec, cx.dims, cx.ranks, in.bytes, x);
  }
  template <real In, executor E>
  void contribution(context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
                    no_state const&) const {
    judge(cx.exec, cx.dims, cx.ranks, produced, sent);
  }

 private:
  template <class In, class E>
  void judge(E const& exec, shape const& dims, unsigned ranks, span_on<E, std::byte const> votes,
             values_on<E, In> x) const {
    detail::with_level(ranks, [&]<class Level>(Level) {
      exec.for_each_index(dims.n, detail::judge_votes<In, Level>{side_as<Level>(votes), even(), x.data});
    });
  }
};

static_assert(stage<summed_sign, float, archetype> && collective<summed_sign, float, archetype>);

}}  // namespace pith::PITH_ABI
