// pith/quantize/quantizer_batch.hpp — the programs of a scalar quantizer over the segments of a batch.
#pragma once

#include <pith/core/call.hpp>
#include <pith/core/segments.hpp>
#include <pith/core/source.hpp>
#include <pith/quantize/quantizer_blocks.hpp>

#include <cstddef>
#include <cstdint>

namespace pith::inline v0::detail {

/// What encoding reads and writes of each segment.
template <class Rule, class In, std::uint32_t Span>
struct segments_to_quantize {
  using A = accum<In>;
  using source = plain_source<In>;

  Rule rule;
  std::uint64_t bucket;
  call id;
  In const* x;
  std::byte* payloads;
  statistic_of<Rule, A>* partial;
  std::uint64_t const* tiles_before;

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

template <class Rule, class In, std::uint32_t Span>
struct make_quantize_buckets {
  using body = quantize_buckets<Rule, plain_source<In>, accum<In>, Span>;
  segments_to_quantize<Rule, In, Span> of;
  PITH_HD body operator()(segment const& s, std::uint32_t) const { return {of.to(s), of.from(s), of.random(s)}; }
};

template <class Rule, class In, std::uint32_t Span>
struct make_measure_tiles {
  using body = measure_tiles<Rule, plain_source<In>, accum<In>, Span>;
  segments_to_quantize<Rule, In, Span> of;
  PITH_HD body operator()(segment const& s, std::uint32_t i) const {
    return {of.to(s), of.from(s), of.partial + of.tiles_before[i]};
  }
};

template <class Rule, class In, std::uint32_t Span>
struct make_finish_buckets {
  using body = finish_buckets<Rule, accum<In>>;
  segments_to_quantize<Rule, In, Span> of;
  PITH_HD body operator()(segment const& s, std::uint32_t i) const {
    return {of.to(s), of.partial + of.tiles_before[i]};
  }
};

template <class Rule, class In, std::uint32_t Span>
struct make_quantize_part {
  using body = quantize_part<Rule, plain_source<In>, accum<In>, Span>;
  segments_to_quantize<Rule, In, Span> of;
  PITH_HD body operator()(segment const& s, std::uint32_t) const { return {of.to(s), of.from(s), of.random(s)}; }
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

/// A quantizer's engine for batches: tensors of small buckets take one program, those of large ones three, and those
/// without scales one.
template <class Rule>
struct quantizer_batch {
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
    return scratch_for<statistic_of<Rule, accum<In>>>(table.blocks(tiles_of_large));
  }

  template <class In, class E>
  void encode(E const& exec, call const& id, segment_table<E> const& table, In const* x, std::byte* payloads,
              workspace_on<E>& ws) const {
    constexpr auto span = E::block_span;
    auto const scope = ws.mark();
    auto* const partial = ws.template take<statistic_of<Rule, accum<In>>>(table.blocks(tiles_of_large)).data;
    auto const* const tiles = table.over(tiles_of_large).before;
    auto const of = segments_to_quantize<Rule, In, span>{rule, bucket, id, x, payloads, partial, tiles};
    if constexpr (measures<Rule, accum<In>>) {
      run(exec, table, small_buckets, make_quantize_buckets<Rule, In, span>{of});
      run(exec, table, tiles_of_large, make_measure_tiles<Rule, In, span>{of});
      run(exec, table, large_buckets, make_finish_buckets<Rule, In, span>{of});
    }
    if constexpr (!scale_free<Rule>) run(exec, table, parts_of_large, make_quantize_part<Rule, In, span>{of});
  }

  template <class In, class E>
  void decode(E const& exec, segment_table<E> const& table, std::byte const* payloads, In* x) const {
    run(exec, table, decoding, make_dequantize_block<Rule, In, E::block_span>{rule, bucket, payloads, x});
  }

 private:
  template <class E, class Maker>
  void run(E const& exec, segment_table<E> const& table, work which, Maker const& make) const {
    if (table.blocks(which) > 0) exec.for_each_block(table.blocks(which), batched<Maker>(make, table.over(which)));
  }
};

}  // namespace pith::inline v0::detail
