// pith/quantize/two_magnitudes.hpp — a sign and one of two magnitudes per element, in two bits.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/detail/pack.hpp>
#include <pith/core/element.hpp>
#include <pith/core/error.hpp>
#include <pith/core/executor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The two magnitudes of a bucket. Bit 0 of a symbol selects one of them, and bit 1 is the sign.
struct magnitude_pair {
  bfloat16 of[2];

  template <class A>
  PITH_HD A value(std::uint32_t symbol) const {
    auto const size = static_cast<A>(static_cast<float>(of[symbol & 1]));
    return symbol & 2 ? -size : size;
  }
};

/// The sums of the magnitudes up to a threshold and of those above it. Sums are added in double and in eight lanes, so
/// that their order is the same on every executor. Magnitudes are compared as bit patterns, which g++ vectorises.
class split_sums {
 public:
  template <class In>
  PITH_HD split_sums(In const* from, std::uint32_t count, double threshold) : count_(count) {
    auto const most = bits_as<std::int64_t>(threshold);
    auto const whole = count / lanes * lanes;
    for (std::uint32_t first = 0; first < whole; first += lanes)
      for (std::uint32_t lane = 0; lane < lanes; ++lane) add(from[first + lane], most, lane);
    for (auto i = whole; i < count; ++i) add(from[i], most, i - whole);
  }
  PITH_HD bool has_both() const { return 0 < highs() && highs() < count_; }

  /// The means on both sides. If there is no magnitude on one side, both means are equal.
  PITH_HD double low() const { return highs() == count_ ? high() : sum(low_) / (count_ - highs()); }
  PITH_HD double high() const { return highs() == 0 ? low() : sum(high_) / highs(); }

 private:
  static constexpr std::uint32_t lanes = 8;

  template <class In>
  PITH_HD void add(In value, std::int64_t most, std::uint32_t lane) {
    auto const size = bits_as<std::int64_t>(static_cast<double>(magnitude(element_cast<accum<In>>(value))));
    auto const above = -static_cast<std::int64_t>(size > most);
    low_[lane] += bits_as<double>(size & ~above);
    high_[lane] += bits_as<double>(size & above);
    highs_[lane] -= above;
  }
  template <class T>
  PITH_HD static T sum(T const (&of)[lanes]) {
    T all = 0;
    for (auto const one : of) all += one;
    return all;
  }
  PITH_HD double highs() const { return static_cast<double>(sum(highs_)); }

  double low_[lanes] = {}, high_[lanes] = {};
  std::int64_t highs_[lanes] = {};
  double count_;
};

/// Encodes buckets. The threshold of a bucket begins at the mean magnitude. Each round computes the means of the
/// magnitudes up to the threshold and of those above it, and moves the threshold to the middle of the two means
/// (Lloyd's algorithm).
template <class In>
struct encode_two_magnitudes {
  static constexpr std::uint32_t items_per_block = 4096;
  static constexpr int rounds = 10;
  struct memory {};

  In const* x;
  std::uint64_t n;
  std::uint32_t bucket;
  std::uint8_t* symbols;
  magnitude_pair* pairs;

  PITH_HD std::uint32_t in_block() const { return bucket < items_per_block ? items_per_block / bucket : 1; }
  std::uint64_t blocks() const { return blocks_for(blocks_for(n, bucket), in_block()); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto const first = block * in_block();
    auto const own = *this;
    team.for_each(block_size(blocks_for(n, bucket), first, in_block()),
                  [=](std::uint32_t j) { own.encode(first + j); });
  }

 private:
  PITH_HD void encode(std::uint64_t b) const {
    auto const first = b * bucket;
    auto const* const from = x + first;
    auto const count = block_size(n, first, bucket);
    auto const threshold = threshold_of(from, count);
    pairs[b] = pair_of(split_sums(from, count, threshold));
    auto const most = bits_as<std::int64_t>(threshold);
    for (std::uint64_t g = 0; g < octets(count); ++g) {
      std::uint8_t room[octet] = {};
      auto const size = octet_size(g, count);
      for (std::uint64_t i = 0; i < size; ++i) room[i] = symbol(from[g * octet + i], most);
      pack_octet<2>(room, size, symbols + 2 * (first / octet + g));
    }
  }
  PITH_HD static std::uint8_t symbol(In value, std::int64_t most) {
    auto const v = static_cast<double>(element_cast<accum<In>>(value));
    return static_cast<std::uint8_t>((bits_as<std::int64_t>(magnitude(v)) > most ? 1 : 0) | (v < 0 ? 2 : 0));
  }
  /// A threshold that is not finite becomes the largest number, so that symbols do not depend on the bits of a NaN.
  PITH_HD static double threshold_of(In const* from, std::uint32_t count) {
    constexpr auto largest = largest_finite<double>;
    auto threshold = split_sums(from, count, largest + 0).low();
    for (int round = 0; round < rounds; ++round) {
      auto const parts = split_sums(from, count, threshold);
      auto const next = middle(parts.low(), parts.high());
      if (!parts.has_both() || next == threshold) break;
      threshold = next;
    }
    return is_finite(threshold) ? threshold : largest + 0;
  }
  /// All products are exact or infinite, so that a fused multiply-add gives the same number.
  PITH_HD static double middle(double low, double high) {
    auto const sum = low + high;
    return is_finite(sum) ? 0.5 * sum : 0.5 * low + 0.5 * high;
  }
  /// If a mean is not finite, both magnitudes are NaN.
  PITH_HD static magnitude_pair pair_of(split_sums const& parts) {
    auto const low = parts.low(), high = parts.high();
    if (!is_finite(low) || !is_finite(high)) return {{bfloat16(written_nan<float>), bfloat16(written_nan<float>)}};
    return {{saturated_cast<bfloat16>(low), saturated_cast<bfloat16>(high)}};
  }
};

template <class In>
struct decode_two_magnitudes {
  std::uint8_t const* symbols;
  magnitude_pair const* pairs;
  std::uint32_t bucket;
  In* x;

  PITH_HD void operator()(std::uint64_t i) const {
    auto const symbol = static_cast<std::uint32_t>(symbols[i / 4] >> (i % 4 * 2)) & 3u;
    x[i] = saturated_cast<In>(pairs[i / bucket].template value<accum<In>>(symbol));
  }
};

}  // namespace detail

/// Encodes each element as its sign and one of two magnitudes of its bucket. A threshold divides the elements'
/// magnitudes into two groups, and the two magnitudes are the means of these groups. Lloyd's algorithm chooses the
/// threshold, so that the squared error is small.
///
///   emits       n symbols of 2 bits; side information: two bfloat16 magnitudes per bucket
///   requires    a bucket size that is a multiple of 8, at most 8192 (std::invalid_argument); the default is 64, the
///               number of entries that chunk_top_k keeps per chunk. The range of magnitudes is that of bfloat16,
///               2^-133 to 2^128
///   complexity  up to 13 passes over a bucket, which is in a cache; no scratch memory
///   on NaN      a bucket decodes to NaN if it contains NaN or infinity, or (double only) if its sum overflows.
///               Magnitudes of doubles above the range saturate
///   properties  contractive with delta = (1 - 2^-16) / (bucket size), if the magnitudes are in [2^-126, 2^128) and the
///               gradients are floats or doubles. For the 64 largest of 4,096 normally distributed values, the relative
///               squared error is 0.0037, and 0.013 with one magnitude. Use two_magnitudes after a sparsifier
///   reference   Sarfi et al., Communication Efficient LLM Pre-training with SparseLoCo, 2025, but with two signs of
///               two magnitudes instead of four values; Lloyd, Least Squares Quantization in PCM, 1982
class two_magnitudes : public codec_base {
 public:
  using facets = ext::facets<ext::contractive>;

  template <class In>
  using output = packed<2>;

  static constexpr codec_traits traits = {.reproducible = true};

  static constexpr std::uint32_t max_bucket = 8192;

  explicit two_magnitudes(std::uint32_t bucket = 64) : bucket_(bucket) {
    detail::require(bucket > 0 && bucket % 8 == 0 && bucket <= max_bucket,
                    "two_magnitudes: bucket must be a multiple of 8 in [8, ", max_bucket, "], got ", bucket);
  }

  std::string name() const { return bucket_ == 64 ? "two_magnitudes" : detail::text("two_magnitudes(", bucket_, ")"); }
  double delta(shape const& dims) const {
    return dims.n == 0 ? 1 : (1 - 0x1p-16) / static_cast<double>(std::min<std::uint64_t>(bucket_, dims.n));
  }

  template <real In>
  std::size_t side_bytes(shape const& dims) const {
    return static_cast<std::size_t>(buckets(dims.n)) * sizeof(detail::magnitude_pair);
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, packed<2>> y) const {
    auto* const pairs = side_as<detail::magnitude_pair>(y.side);
    auto const body = detail::encode_two_magnitudes<In>{x.data, cx.dims.n, bucket_, y.values.data, pairs};
    cx.exec.for_each_block(body.blocks(), body);
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, packed<2> const> y, values_on<E, In> x) const {
    auto const* const pairs = side_as<detail::magnitude_pair>(y.side);
    cx.exec.for_each_index(cx.dims.n, detail::decode_two_magnitudes<In>{y.values.data, pairs, bucket_, x.data});
  }

 private:
  std::uint64_t buckets(std::uint64_t n) const { return detail::blocks_for(n, bucket_); }

  std::uint32_t bucket_;
};

static_assert(stage<two_magnitudes, float, archetype> && promises_of<two_magnitudes>.contractive);

}}  // namespace pith::PITH_ABI
