// pith/registry/stages.hpp — the stages that a text can name, one line per stage.
#pragma once

#include <pith/adaptor/damped.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/eden.hpp>
#include <pith/quantize/eight_bit.hpp>
#include <pith/quantize/mx.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/nvfp4.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/quantize/stochastic_cast.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/quantize/summed_terngrad.hpp>
#include <pith/quantize/terngrad.hpp>
#include <pith/quantize/trits.hpp>
#include <pith/quantize/two_magnitudes.hpp>
#include <pith/registry/detail/stage_lookup.hpp>
#include <pith/registry/method.hpp>
#include <pith/sparsify/chunk_top_k.hpp>
#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/packed_indices.hpp>
#include <pith/sparsify/random_blocks.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/redsync.hpp>
#include <pith/sparsify/redsync_mean.hpp>
#include <pith/sparsify/sidco.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>
#include <pith/transform/hadamard.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Calls f with the stage that a term names. The stage must not be `damped`.
template <class F>
made_by<F> with_undamped_stage(syntax::term const& t, F const& f);

/// Calls f with the number in <Bits> as a constant. The number must be in [Least, Most].
template <int Least, int Most, int Bits = Least, class F>
auto with_bits(syntax::term const& t, F const& f) {
  if (t.angle_count() == Bits) return f(std::integral_constant<int, Bits>());
  if constexpr (Bits < Most) {
    return with_bits<Least, Most, Bits + 1>(t, f);
  } else {
    throw std::invalid_argument(
        sentence("parse: Bits of ", t.name, "<Bits> must be in [", Least, ", ", Most, "], got \"", t.text, "\""));
  }
}

/// Calls f with qsgd<Bits>, where Bits is in [2, Most].
template <int Most, class F>
made_by<F> with_qsgd(syntax::term const& t, F const& f) {
  auto const bucket = t.count(1, 128);
  auto const of = t.is_second(2, "l2", "max") ? norm::max : norm::l2;
  auto const of_bits = [&](auto bits) {
    return f(qsgd<bits()>(t.count<int>(0, qsgd<bits()>::max_levels), bucket, of));
  };
  return with_bits<2, Most>(t, of_bits);
}

template <class F>
made_by<F> with_terngrad(syntax::term const& t, F const& f) {
  auto const sigma = t.has(0) ? t.number(0) : 2.5;
  auto const bucket = t.count(1, 0);
  return sigma == 0 ? f(terngrad(options::unclipped, bucket)) : f(terngrad<>(sigma, bucket));
}

/// Calls f with trits(s), where s is the ternary stage that the term names.
template <class F>
made_by<F> with_trits(syntax::term const& t, F const& f) {
  auto const wrapped = [&](auto const& stage) -> made_by<F> { return f(trits(stage)); };
  if (t.is_plain("terngrad", 0, 2)) return with_terngrad(t, wrapped);
  require(t.name == "qsgd" && t.angle == "2", "parse: s of trits(s) must be terngrad or qsgd<2>, got \"", t.text, "\"");
  t.takes(0, 3);
  return with_qsgd<2>(t, wrapped);
}

template <class F>
made_by<F> with_natural(syntax::term const& t, F const& f) {
  require(t.angle == "8" || t.angle == "9", "parse: Bits of natural<Bits> must be 8 or 9, got \"", t.text, "\"");
  return t.angle == "8" ? f(natural<8>()) : f(natural<9>());
}

template <class F>
made_by<F> with_one_bit(syntax::term const& t, F const& f) {
  if (t.has(0) && t.arguments[0].text == "row") return f(one_bit(options::row));
  if (t.has(0) && t.arguments[0].text == "column") return f(one_bit(options::column));
  return f(one_bit<>(t.count(0, 0)));
}

inline ties ties_in(syntax::term const& t) { return t.is_second(0, "positive", "zero") ? ties::zero : ties::positive; }

/// The choice of a microscaling format's scale, in argument i.
inline mx_scale mx_scale_in(syntax::term const& t, std::size_t i, mx_scale usual) {
  return static_cast<mx_scale>(t.word(i, {"floor", "even", "ceil", "rceil"}, static_cast<std::size_t>(usual)));
}

template <class F>
made_by<F> with_threshold(syntax::term const& t, F const& f) {
  auto const tau = t.number(0), capacity = t.has(1) ? t.number(1) : 1;
  return t.is_second(2, "keep", "dense") ? f(threshold(tau, capacity, options::dense)) : f(threshold(tau, capacity));
}

template <class F>
made_by<F> with_sidco(syntax::term const& t, F const& f) {
  auto const density = t.number(0);
  auto const stages = t.count<unsigned>(2, 0);
  switch (t.word(1, {"exponential", "gamma", "pareto"})) {
    case 1: return f(sidco(density, options::gamma, stages));
    case 2: return f(sidco(density, options::pareto, stages));
    default: return f(sidco(density, options::exponential, stages));
  }
}

template <scaling Scaling, class F>
made_by<F> with_random_k(syntax::term const& t, option<Scaling> how, F const& f) {
  auto const density = t.number(0);
  return t.is_second(2, "shared", "own") ? f(random_k(density, how, options::own)) : f(random_k(density, how));
}

template <class S>
S low_rank(syntax::term const& t) {
  auto const format = t.is_second(2, "full", "bfloat16") ? factor_format::bfloat16 : factor_format::full;
  return S(t.count<unsigned>(0), t.has(1) ? t.number(1) : 2, format);
}

template <class F>
made_by<F> with_damped(syntax::term const& t, F const& f) {
  return with_undamped_stage(t.arguments[0].only(), [&]<class S>(S const& stage) -> made_by<F> {
    if constexpr (promises_of<S>.unbiased) {
      return f(damped(stage));
    } else {
      throw std::invalid_argument(sentence("parse: s of damped(s) must be unbiased, got ", stage.name()));
    }
  });
}

}  // namespace detail

/// The stages, in the order of the documentation.
inline constexpr auto stage_methods = std::tuple(
    method("identity", 0, 0, "every element uncompressed", {"identity"},
           [](auto const&, auto const& f) { return f(identity()); }),
    method("cast<half>", 0, 0, "every element in 16 bits", {"cast<half>"},
           [](auto const&, auto const& f) { return f(cast<half>()); }),
    method("cast<bfloat16>", 0, 0, "every element in 16 bits, with the exponents of float", {"cast<bfloat16>"},
           [](auto const&, auto const& f) { return f(cast<bfloat16>()); }),
    method("stochastic_cast<bfloat16>", 0, 0, "every element in 16 bits, rounded up or down at random",
           {"stochastic_cast<bfloat16>"}, [](auto const&, auto const& f) { return f(stochastic_cast<bfloat16>()); }),
    method("scaled_sign", 0, 1, "signs, and the mean magnitude of the tensor; scaled_sign(n): of each bucket of n",
           {"scaled_sign", "scaled_sign(8)"},
           [](auto const& t, auto const& f) { return f(scaled_sign(t.count(0, 0))); }),
    method("one_bit", 0, 1,
           "signs, and a mean for each sign; one_bit(n), one_bit(row), one_bit(column): of buckets, rows, columns",
           {"one_bit", "one_bit(8)", "one_bit(row)", "one_bit(column)"},
           [](auto const& t, auto const& f) { return detail::with_one_bit(t, f); }),
    method("sign", 0, 1, "signs; ranks receive the majority's sign; sign(zero): 0 in a tie", {"sign", "sign(zero)"},
           [](auto const& t, auto const& f) { return f(sign(detail::ties_in(t))); }),
    method("summed_sign", 0, 1, "signs, and their sum over all ranks in one byte per element",
           {"summed_sign", "summed_sign(zero)"},
           [](auto const& t, auto const& f) { return f(summed_sign(detail::ties_in(t))); }),
    method("terngrad", 0, 2, "-1, 0 and 1 times the largest; terngrad(sigma, bucket): clipped at sigma deviations, 0: "
           "unclipped", {"terngrad", "terngrad(0)", "terngrad(0,8)", "terngrad(2.5,64)"},
           [](auto const& t, auto const& f) { return detail::with_terngrad(t, f); }),
    method("qsgd<Bits>", 0, 3, "random rounding to 2 to 10 bits, in buckets of 128; qsgd<4>(levels, bucket, l2 or max)",
           {"qsgd<4>", "qsgd<2>", "qsgd<3>", "qsgd<5>(15,0)", "qsgd<6>", "qsgd<7>", "qsgd<8>", "qsgd<9>", "qsgd<10>",
            "qsgd<4>(3,64,max)"},
           [](auto const& t, auto const& f) { return detail::with_qsgd<10>(t, f); }),
    method("summed_terngrad", 0, 1, "-1, 0 and 1 times the largest of all ranks, summed in bytes", {"summed_terngrad"},
           [](auto const& t, auto const& f) { return f(t.has(0) ? summed_terngrad(t.number(0)) : summed_terngrad()); }),
    method("trits(stage)", 1, 1, "five ternary symbols per byte; also trits(qsgd<2>)",
           {"trits(terngrad(0))", "trits(terngrad)", "trits(qsgd<2>)"},
           [](auto const& t, auto const& f) { return detail::with_trits(t.arguments[0].only(), f); }),
    method("natural<Bits>", 0, 0, "random rounding to powers of two; natural<9>: all exponents",
           {"natural<8>", "natural<9>"}, [](auto const& t, auto const& f) { return detail::with_natural(t, f); }),
    method("eight_bit", 0, 2, "128 points of six decades; eight_bit(bucket, nearest or floor)",
           {"eight_bit", "eight_bit(8,floor)"},
           [](auto const& t, auto const& f) {
             return f(eight_bit(t.count(0, 0), t.is_second(1, "nearest", "floor") ? snap::floor : snap::nearest));
           }),
    method("block_int<Bits>", 0, 2,
           "the nearest of 2^Bits - 1 multiples of a scale, 2 to 8 bits, in buckets of 128; block_int<8>(bucket, clip): "
           "the scale with the least squared error",
           {"block_int<8>", "block_int<2>(8)", "block_int<3>", "block_int<4>(32)", "block_int<5>", "block_int<6>(0)",
            "block_int<7>", "block_int<2>(32,clip)"},
           [](auto const& t, auto const& f) {
             auto const scale = t.is_second(1, "largest", "clip") ? block_scale::clip : block_scale::largest;
             auto const of_bits = [&](auto bits) { return f(block_int<bits()>(t.count(0, 128), scale)); };
             return detail::with_bits<2, 8>(t, of_bits);
           }),
    method("mxfp8", 0, 2,
           "floats of 8 bits, in blocks of 32 with a power of two; mxfp8(e4m3 or e5m2, floor, even, ceil or rceil)",
           {"mxfp8", "mxfp8(e5m2)", "mxfp8(e4m3,floor)"},
           [](auto const& t, auto const& f) {
             auto const format = t.is_second(0, "e4m3", "e5m2") ? fp8_format::e5m2 : fp8_format::e4m3;
             return f(mxfp8(format, detail::mx_scale_in(t, 1, mx_scale::rceil)));
           }),
    method("mxfp6", 0, 2, "floats of 6 bits; mxfp6(e2m3 or e3m2, floor, even, ceil or rceil)",
           {"mxfp6", "mxfp6(e3m2)", "mxfp6(e2m3,rceil)"},
           [](auto const& t, auto const& f) {
             auto const format = t.is_second(0, "e2m3", "e3m2") ? fp6_format::e3m2 : fp6_format::e2m3;
             return f(mxfp6(format, detail::mx_scale_in(t, 1, mx_scale::even)));
           }),
    method("mxfp4", 0, 1, "floats of 4 bits; mxfp4(floor, even, ceil or rceil)", {"mxfp4", "mxfp4(floor)"},
           [](auto const& t, auto const& f) { return f(mxfp4(detail::mx_scale_in(t, 0, mx_scale::even))); }),
    method("mxint8", 0, 1, "integers of 8 bits; mxint8(floor, even, ceil or rceil)", {"mxint8", "mxint8(ceil)"},
           [](auto const& t, auto const& f) { return f(mxint8(detail::mx_scale_in(t, 0, mx_scale::rceil))); }),
    method("nvfp4", 0, 1,
           "floats of 4 bits, in blocks of 16 with floats of 8 bits as scales; nvfp4(six or four_or_six)",
           {"nvfp4", "nvfp4(four_or_six)"},
           [](auto const& t, auto const& f) {
             return f(nvfp4(t.is_second(0, "six", "four_or_six") ? nvfp4_scale::four_or_six : nvfp4_scale::six));
           }),
    method("eden<Bits>", 0, 2,
           "the nearest of 2^Bits points for normally distributed values, 1 to 8 bits, after hadamard; eden<4>(bucket, none "
           "or unbiased)",
           {"eden<4>", "eden<1>", "eden<2>", "eden<3>(0)", "eden<5>", "eden<6>", "eden<7>", "eden<8>",
            "eden<4>(64,unbiased)"},
           [](auto const& t, auto const& f) {
             auto const how = t.is_second(1, "none", "unbiased") ? scaling::unbiased : scaling::none;
             return detail::with_bits<1, 8>(t, [&](auto bits) { return f(eden<bits()>(t.count(0, 256), how)); });
           }),
    method("two_magnitudes", 0, 1, "signs and two magnitudes per 64 elements, for the values of a sparsifier",
           {"two_magnitudes", "two_magnitudes(8)"},
           [](auto const& t, auto const& f) {
             return f(two_magnitudes(t.template count<std::uint32_t>(0, 64)));
           }),
    method("top_k", 1, 2, "the 1 % of largest magnitude; top_k(density, elias_fano or packed_indices)",
           {"top_k(0.01)", "top_k(0.25)", "top_k(0.01,packed_indices)"},
           [](auto const& t, auto const& f) {
             return t.is_second(1, "elias_fano", "packed_indices") ? f(top_k(t.number(0), packed_indices()))
                                                                   : f(top_k(t.number(0)));
           }),
    method("chunk_top_k", 1, 2, "the 64 of largest magnitude of each 4,096; chunk_top_k(k, chunk)",
           {"chunk_top_k(64,4096)", "chunk_top_k(2,16)"},
           [](auto const& t, auto const& f) {
             return f(chunk_top_k(t.template count<std::uint32_t>(0), t.template count<std::uint32_t>(1, 4096)));
           }),
    method("threshold", 1, 3, "magnitudes from 0.01 on; threshold(tau, capacity, keep or dense): up to a share, then "
           "keep the rest or send all", {"threshold(0.01)", "threshold(0.5,0.3)", "threshold(0.5,0.3,dense)"},
           [](auto const& t, auto const& f) { return detail::with_threshold(t, f); }),
    method("redsync", 1, 1, "1 % to 2 % of largest magnitude, by a search for the threshold", {"redsync(0.01)"},
           [](auto const& t, auto const& f) { return f(redsync(t.number(0))); }),
    method("redsync_mean", 1, 1, "as redsync, the largest of one sign in turn, all sent as their mean",
           {"redsync_mean(0.01)"},
           [](auto const& t, auto const& f) { return f(redsync_mean(t.number(0))); }),
    method("sidco", 1, 3, "about 1 %, by a fit of the tail; sidco(density, exponential, pareto or gamma, stages)",
           {"sidco(0.01)", "sidco(0.02,exponential,3)", "sidco(0.1,pareto)", "sidco(0.2,gamma,2)"},
           [](auto const& t, auto const& f) { return detail::with_sidco(t, f); }),
    method("gaussian_k", 1, 2, "about 1 %, by mean and deviation; gaussian_k(density, coarse or fine)",
           {"gaussian_k(0.01)", "gaussian_k(0.1,fine)"},
           [](auto const& t, auto const& f) {
             auto const is_fine = t.is_second(1, "coarse", "fine");
             return f(gaussian_k(t.number(0), is_fine ? correction::fine : correction::coarse));
           }),
    method("random_k", 1, 3, "a random 10 %, the same on all ranks; random_k(0.1, none or unbiased, shared or own)",
           {"random_k(0.1)", "random_k(0.1,unbiased)", "random_k(0.1,none,own)", "random_k(0.1,unbiased,own)"},
           [](auto const& t, auto const& f) {
             return t.is_second(1, "none", "unbiased") ? detail::with_random_k(t, options::unbiased, f)
                                                       : detail::with_random_k(t, options::none, f);
           }),
    method("random_blocks", 1, 3, "random runs of 16, the same on all ranks; random_blocks(0.1, 16, none or unbiased)",
           {"random_blocks(0.1,16)", "random_blocks(0.1,16,unbiased)"},
           [](auto const& t, auto const& f) {
             auto const density = t.number(0);
             auto const block = t.template count<std::uint32_t>(1, 64);
             return t.is_second(2, "none", "unbiased") ? f(random_blocks(density, block, options::unbiased))
                                                       : f(random_blocks(density, block));
           }),
    method("hadamard", 0, 1, "a rotation, for use before a quantizer; hadamard(tile)", {"hadamard", "hadamard(64)"},
           [](auto const& t, auto const& f) {
             return f(t.has(0) ? hadamard(t.template count<std::uint32_t>(0)) : hadamard());
           }),
    method("power_sgd", 1, 3, "a product of two thin matrices of rank 2; power_sgd(rank, min_rate, full or bfloat16)",
           {"power_sgd(2)", "power_sgd(1,4)", "power_sgd(2,2,bfloat16)"},
           [](auto const& t, auto const& f) { return f(detail::low_rank<power_sgd>(t)); }),
    method("one_sided_power_sgd", 1, 3, "as power_sgd, with one sum per step instead of two",
           {"one_sided_power_sgd(2)", "one_sided_power_sgd(2,2,bfloat16)"},
           [](auto const& t, auto const& f) { return f(detail::low_rank<one_sided_power_sgd>(t)); }),
    method("damped(stage)", 1, 1, "an unbiased codec, scaled so that it contracts",
           {"damped(qsgd<4>)", "damped(natural<9>)", "damped(trits(terngrad(0,8)))", "damped(random_k(0.1,unbiased))"},
           [](auto const& t, auto const& f) { return detail::with_damped(t, f); }));

/// The descriptions of all stages.
inline constexpr auto stage_listings = detail::listings_of(stage_methods);

namespace detail {

template <class F>
made_by<F> with_undamped_stage(syntax::term const& t, F const& f) {
  static_assert(stage_listings.back().name() == "damped");
  return with_stage_among<stage_listings.size() - 1>(stage_methods, t, f, stage_listings, wrapper_listings);
}

/// Calls f with the stage that a term names.
template <class F>
made_by<F> with_stage(syntax::term const& t, F const& f) {
  return with_stage_among<stage_listings.size()>(stage_methods, t, f, stage_listings, wrapper_listings);
}

}  // namespace detail
}}  // namespace pith::PITH_ABI
