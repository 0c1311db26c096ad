// pith/quantize/detail/quantizer_batch.hpp — the kernels that run a scalar quantizer over the segments of a batch.
#pragma once

#include <pith/codec/segments.hpp>
#include <pith/core/draws.hpp>
#include <pith/core/source.hpp>
#include <pith/quantize/detail/decode_block.hpp>
#include <pith/quantize/detail/large_buckets.hpp>
#include <pith/quantize/detail/small_buckets.hpp>

#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

template <class Rule, class In, std::uint32_t Span>
struct segments_to_quantize {
  using A = accum<In>;
  using source = plain_source<In>;

  Rule rule;
  std::uint64_t bucket;
  encoding_id id;
  In const* x;
  std::byte* payloads;
  statistic_of<Rule, A>* partial;
  std::uint32_t* arrived;
  std::uint64_t const *tiles_before, *buckets_before;

  PITH_HD quantized<Rule, A> to(segment const& s) const {
    return {rule, blocks_of(s.n, bucket, Span), reinterpret_cast<std::uint8_t*>(payloads + s.payload),
            reinterpret_cast<scale_of<Rule, A>*>(payloads + s.side)};
  }
  PITH_HD source from(segment const& s) const { return {x + s.first}; }
  PITH_HD draws random(segment const& s) const {
    auto own = id;
    own.tensor = s.tensor;
    return draws(own);
  }
};

template <class Body, class Segments>
struct make_encoder {
  using body = Body;
  Segments of;
  PITH_HD body operator()(segment const& s, std::uint32_t) const { return {of.to(s), of.from(s), of.random(s)}; }
};

template <class Body, class Segments>
struct make_measurer {
  using body = Body;
  Segments of;
  PITH_HD body operator()(segment const& s, std::uint32_t i) const {
    return {of.to(s), of.from(s), of.partial + of.tiles_before[i], of.arrived + of.buckets_before[i]};
  }
};

template <class Rule, class In, std::uint32_t Span>
struct make_dequantize_block {
  using A = accum<In>;
  using body = dequantize_block<Rule, tensor_sink<In>, A, Span>;
  Rule rule;
  std::uint64_t bucket;
  std::byte const* payloads;
  In* x;
  PITH_HD body operator()(segment const& s, std::uint32_t) const {
    return {parts_of<Rule, A>{rule, blocks_of(s.n, bucket, Span),
                              reinterpret_cast<std::uint8_t const*>(payloads + s.payload),
                              reinterpret_cast<scale_of<Rule, A> const*>(payloads + s.side), 0, 1},
            tensor_sink<In>{x + s.first, 1}};
  }
};

/// Encodes and decodes the tensors of a segment_table (codec/segments.hpp) with a fixed number of kernels. Decoding
/// takes one kernel. For a rule without scales, encoding also takes one kernel. For other rules, encoding takes one
/// kernel for all tensors whose buckets fit into a block, and at most two kernels for all other tensors.
template <class Rule>
struct quantizer_batch {
  /// The programs of the batch engine (codec/segments.hpp). Each program except `large_buckets` is a kernel, and
  /// `blocks` returns the number of blocks of this kernel. For `large_buckets`, `blocks` returns the number of large
  /// buckets, because each large bucket needs a counter of finished tiles.
  enum work : unsigned { small_buckets, tiles_of_large, large_buckets, parts_of_large, decoding };
  static constexpr unsigned programs = 5;

  Rule rule;
  std::uint64_t bucket;

  constexpr std::uint64_t blocks(unsigned program, std::uint64_t n, std::uint32_t span) const {
    auto const over = blocks_of(n, bucket, span);
    if (program == decoding) return over.count();
    if (!measures<Rule, float>) return program == parts_of_large ? over.count() : 0;
    if (over.are_small() != (program == small_buckets)) return 0;
    if (program == tiles_of_large) return over.buckets() * over.tiles();
    return program == large_buckets ? over.buckets() : over.count();
  }

  template <class In, class E>
  std::size_t scratch_bytes(segment_table<E> const& table) const {
    return scratch_for<statistic_of<Rule, accum<In>>>(table.blocks(tiles_of_large)) +
           scratch_for<std::uint32_t>(table.blocks(large_buckets));
  }

  template <class In, class E>
  void encode(E const& exec, encoding_id const& id, segment_table<E> const& table, In const* x, std::byte* payloads,
              workspace_on<E>& ws) const {
    using A = accum<In>;
    using source = plain_source<In>;
    constexpr auto span = E::items_per_block;
    using segments = segments_to_quantize<Rule, In, span>;
    auto const scope = ws.mark();
    auto* const partial = ws.template take<statistic_of<Rule, A>>(table.blocks(tiles_of_large)).data;
    auto* const arrived = ws.template take<std::uint32_t>(table.blocks(large_buckets)).data;
    auto const *const tiles = table.over(tiles_of_large).before, *const buckets = table.over(large_buckets).before;
    auto const of = segments{rule, bucket, id, x, payloads, partial, arrived, tiles, buckets};
    if constexpr (measures<Rule, A>) {
      exec.fill(arrived, std::byte{}, value_bytes<std::uint32_t>(table.blocks(large_buckets)));
      run(exec, table, small_buckets, make_encoder<quantize_buckets<Rule, source, A, span>, segments>{of});
      run(exec, table, tiles_of_large, make_measurer<measure_tiles<Rule, source, A, span>, segments>{of});
    }
    if constexpr (!needs_no_scale<Rule>) {
      run(exec, table, parts_of_large, make_encoder<quantize_part<Rule, source, A, span>, segments>{of});
    }
  }

  template <class In, class E>
  void decode(E const& exec, segment_table<E> const& table, std::byte const* payloads, In* x) const {
    run(exec, table, decoding, make_dequantize_block<Rule, In, E::items_per_block>{rule, bucket, payloads, x});
  }

 private:
  template <class E, class Maker>
  void run(E const& exec, segment_table<E> const& table, work which, Maker const& make) const {
    if (table.blocks(which) > 0) exec.for_each_block(table.blocks(which), batched<Maker>(make, table.over(which)));
  }
};

}}}  // namespace pith::PITH_ABI::detail
