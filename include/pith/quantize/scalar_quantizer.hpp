// pith/quantize/scalar_quantizer.hpp — the engine of quantizers: one symbol per element, one scale per bucket.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/detail/split_factor.hpp>
#include <pith/core/source.hpp>
#include <pith/quantize/detail/decode_block.hpp>
#include <pith/quantize/detail/large_buckets.hpp>
#include <pith/quantize/detail/rule_check.hpp>
#include <pith/quantize/detail/small_buckets.hpp>

#include <cstdint>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// A stage built from a quantizer rule. `Rule` defines the mathematics. The engine adds loops, buckets, packing, random
/// bits, sums over ranks, and error feedback in one pass.
///
///   emits       n symbols of Rule::bits bits; side information: one scale per bucket, or none for a rule without
///               scales. A scale has the type that Rule::finish returns. A rule with ext::tensor has a scale of the
///               tensor, of type accum<In>, before these scales
///   requires    a bucket size of 0 (the whole tensor) or a multiple of 8 (std::invalid_argument)
///   state       none
///   properties  reproducible if the rule is reproducible. A rule is reproducible if it adds no products that a fused
///               multiply-add would round differently
///   complexity  one read of x. A bucket that is larger than a block of the executor takes two reads of x, and scratch
///               memory for one statistic per tile of 16,384 elements and one word per bucket
///   on NaN      a bucket that contains NaN or infinity decodes to NaN. Without scales, the rule determines the result
template <class Rule>
class scalar_quantizer : public codec_base {
  static_assert(quantizer_rule<Rule, float>,
                "pith: scalar_quantizer<Rule> needs bits, draws, code and value, and measure, merge and finish unless "
                "it has no scale: see quantizer_rule");
  static_assert(!detail::sign_only<Rule> || (Rule::bits == 1 && !Rule::draws),
                "pith: scalar_quantizer<Rule>: a rule with the facet ext::sign has symbols of one bit and draws "
                "nothing");
  static_assert(sizeof(detail::rule_check<Rule, float>) > 0);

 public:
  using engine_facets = ext::facets<ext::source, ext::ranks, detail::reads_tiles>;

  template <class In>
  using output = packed<Rule::bits>;

  static constexpr codec_traits traits = {.reproducible = reproducible<Rule>};

  explicit constexpr scalar_quantizer(Rule rule, std::uint64_t bucket, char const* codec = "scalar_quantizer")
      : rule_(rule), bucket_(bucket) {
    detail::require(bucket % detail::octet == 0, codec, ": bucket must be 0 (whole tensor) or a multiple of 8, got ",
                    bucket);
  }
  /// A rule without scales has no buckets.
  explicit constexpr scalar_quantizer(Rule rule) requires(!detail::measures<Rule, float>) : rule_(rule), bucket_(0) {}

  constexpr Rule const& rule() const { return rule_; }
  constexpr std::uint64_t bucket() const { return bucket_; }

  /// The number of elements that share a scale, in a tensor with n elements.
  constexpr std::uint64_t bucket_of(std::uint64_t n) const { return detail::bucket_in(n, bucket_); }

  template <real In>
  constexpr std::size_t side_bytes(shape const& dims) const {
    if (!has_scale<In> || dims.n == 0) return 0;
    return tensor_bytes<In> + blocks(dims.n, detail::octet).buckets() * sizeof(scale<In>);
  }
  template <real In, executor E>
  constexpr std::size_t scratch_bytes(E const&, shape const& dims) const {
    auto const over = blocks(dims.n, E::items_per_block);
    auto const of_buckets = over.are_small() || !has_scale<In> ? 0 : measuring_bytes<In>(over);
    return of_buckets + (tensor_bytes<In> > 0 ? measuring_bytes<In>(detail::blocks_of(dims.n, 0, 1)) : 0);
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, output<In>> y) const {
    encode_from(cx, ext::plain_source<In>{x.data}, y);
  }
  /// True if no block boundary splits a tile of a transform, where a tile has `tile` elements.
  constexpr bool holds_tiles(std::uint64_t n, std::uint32_t span, std::uint32_t tile) const {
    return blocks(n, span).hold(tile);
  }
  /// Encodes from a source. If the source has residual write-back, passes the decoded values to the source.
  template <real In, executor E, class Source>
  void encode_from(context<In, E> const& cx, Source const& from, encoded_on<E, output<In>> y) const {
    using namespace detail;
    using A = accum<In>;
    constexpr auto span = E::items_per_block;
    auto const over = blocks(cx.dims.n, span);
    auto to = quantized<Rule, A>{rule_, over, y.values.data, scales_in<In>(y.side)};
    if constexpr (has_tensor_scale<Rule>) {
      auto* const all = side_as<A>(y.side);
      auto const tensor = blocks_of(cx.dims.n, 0, span);
      measure<In>(cx, quantized<tensor_rule<Rule>, A>{{rule_}, tensor, nullptr, all}, from);
      to.rule.tensor = all;
    }
    if constexpr (has_scale<In>) {
      if (over.are_small()) {
        return cx.exec.for_each_block(over.count(), quantize_buckets<Rule, Source, A, span>{to, from, draws(cx.id)});
      }
      measure<In>(cx, to, from);
      if (needs_no_scale<Rule> && !Source::stores_residual) return;
    }
    cx.exec.for_each_block(over.count(), quantize_part<Rule, Source, A, span>{to, from, draws(cx.id)});
  }

  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, output<In> const> y, values_on<E, In> x) const {
    decode_to(cx, y, ext::tensor_sink<In>{x.data, 1});
  }
  template <real In, executor E, class Sink>
  void decode_to(context<In, E> const& cx, encoded_on<E, output<In> const> y, Sink const& to) const {
    decode_ranks_to(cx, gathered_on<E, output<In>>{y, 0, 1}, to);
  }
  /// Sets x to factor times the sum of the ranks' decoded values, added in rank order, in one pass.
  template <real In, executor E>
  void decode_ranks(context<In, E> const& cx, gathered_on<E, output<In>> in, accum<In> factor,
                    values_on<E, In> x) const {
    decode_ranks_to(cx, in, ext::tensor_sink<In>{x.data, factor});
    if constexpr (has_scale<In>) detail::bound_means(cx.exec, factor, in.ranks, x.data, cx.dims.n);
  }
  template <real In, executor E, class Sink>
  void decode_ranks_to(context<In, E> const& cx, gathered_on<E, output<In>> in, Sink const& to) const {
    constexpr auto span = E::items_per_block;
    auto const over = blocks(cx.dims.n, span);
    auto const* const scales = scales_in<In>(in.side);
    auto body = detail::dequantize_block<Rule, Sink, accum<In>, span>{
        {rule_, over, in.values.data, scales, in.stride, in.ranks}, to};
    if constexpr (splits_factor<In, Sink>) {
      auto const factor = detail::split_factor(body.to.factor, in.ranks);
      body.from.before = factor.before;
      body.to.factor = factor.after;
    }
    cx.exec.for_each_block(over.count(), body);
  }

 private:
  template <class In>
  static constexpr bool has_scale = detail::measures<Rule, accum<In>>;
  /// True if `decode_ranks_to` multiplies the values before it adds them. A sum of half values does not overflow a float,
  /// and the product of a half value with a small factor would lose digits.
  template <class In, class Sink>
  static constexpr bool splits_factor =
      !std::same_as<In, half> && detail::scalable<Rule, accum<In>> && requires(Sink sink) {
    sink.factor;
  };
  template <class In>
  using scale = scale_of<Rule, accum<In>>;
  template <class In>
  using statistic = statistic_of<Rule, accum<In>>;

  /// The size of the tensor's scale.
  template <class In>
  static constexpr std::size_t tensor_bytes = detail::has_tensor_scale<Rule> ? sizeof(accum<In>) : 0;

  /// The scales of the buckets, which follow the scale of the tensor.
  template <class In, class Side>
  static constexpr auto scales_in(Side const& side) {
    return side_as<scale<In>>(side.subspan(side.size() == 0 ? 0 : tensor_bytes<In>));
  }
  template <class In>
  static constexpr std::size_t measuring_bytes(detail::bucket_blocks const& over) {
    return scratch_for<statistic<In>>(over.buckets() * over.tiles()) + scratch_for<std::uint32_t>(over.buckets());
  }
  /// Computes the scales of buckets that may be larger than a block.
  template <class In, class E, class Measured, class Source>
  static void measure(context<In, E> const& cx, detail::quantized<Measured, accum<In>> const& to, Source const& from) {
    using A = accum<In>;
    auto const tiles = to.over.buckets() * to.over.tiles();
    auto* const partial = cx.ws.template take<statistic_of<Measured, A>>(tiles).data;
    auto* const arrived = detail::arrival_words(cx.exec, cx.id, to.over.buckets(), cx.ws);
    cx.exec.for_each_block(tiles,
                           detail::measure_tiles<Measured, Source, A, E::items_per_block>{to, from, partial, arrived});
  }

  constexpr detail::bucket_blocks blocks(std::uint64_t n, std::uint32_t span) const {
    return detail::blocks_of(n, bucket_, span);
  }

  Rule rule_;
  std::uint64_t bucket_;
};

}}  // namespace pith::PITH_ABI
