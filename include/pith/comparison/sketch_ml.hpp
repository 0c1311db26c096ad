// pith/comparison/sketch_ml.hpp — quantile buckets, sent as one bucket index per element and one mean per bucket.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/comparison/detail/for_comparison.hpp>
#include <pith/core/detail/pack.hpp>

#include <algorithm>
#include <iterator>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Maps a float to an integer key. The keys order all floats: negative NaN, -infinity, finite numbers, infinity, NaN.
inline std::uint32_t ordered_key(float x) {
  auto const bits = bits_as<std::uint32_t>(x);
  return sign_bit(x) != 0 ? ~bits : bits | 0x80000000u;
}

/// Computes the smallest keys of buckets 1, 2, ... Of m sorted keys, ceil(b (m - 1) / Buckets) keys come before bucket
/// b. Equal values share a bucket. Where linear quantiles would interpolate between two values, the edge is the larger
/// value.
template <std::uint32_t Buckets>
struct quantile_edges {
  std::uint32_t at[Buckets - 1];

  quantile_edges(std::uint32_t const* sorted, std::uint64_t m) {
    for (std::uint64_t b = 1; b < Buckets; ++b) at[b - 1] = sorted[(b * (m - 1) + Buckets - 1) / Buckets];
  }
  std::uint8_t bucket(float x) const {
    return static_cast<std::uint8_t>(std::upper_bound(std::begin(at), std::end(at), ordered_key(x)) - at);
  }
};

}  // namespace detail

/// Splits the elements by value, at 2^Bits - 1 quantiles, into 2^Bits buckets. Encodes the bucket index of each element
/// and the mean of each bucket. For tensors with more than `sample` elements, the quantiles are those of a random
/// sample with `sample` elements. Works only on `seq` and for float.
///
///   emits       n symbols of Bits bits; side information: 2^Bits means; the mean of an empty bucket is 0. There is no
///               side information if n = 0
///   requires    sample >= 1 (default 2^20; std::invalid_argument), n < 2^32
///   complexity  a sort of min(n, sample) keys in scratch memory, and a search of Bits steps per element
///   on NaN      a bucket that contains NaN or infinity decodes to NaN
///   properties  a projection on the span of the buckets' indicator vectors. There is no delta, because the last bucket
///               may have mean 0 if more than 1 - 2^-Bits of all elements are equal. For sparse gradients, use top_k(d)
///               | sketch_ml<6>(). The fraction of elements below a sampled edge differs from the intended fraction by
///               more than e with a probability of at most 2 exp(-2 sample e^2). For the default sample and e = 0.27 %,
///               this bound is below one in a million
///   reference   Jiang, Fu, Yang and Cui, SketchML, SIGMOD 2018, in the form of GRACE's sketch, but with exact
///               quantiles instead of a quantile sketch, and without encoding of keys
template <int Bits>
class sketch_ml : public codec_base {
  static_assert(1 <= Bits && Bits <= 8, "pith: sketch_ml<Bits> needs 1 <= Bits <= 8: it has 2^Bits buckets");

 public:
  template <class In>
  using output = packed<Bits>;

  static constexpr codec_traits traits = {.projection = true, .reproducible = true};
  static constexpr std::uint32_t buckets = 1u << Bits;

  explicit sketch_ml(std::uint64_t sample = std::uint64_t{1} << 20) : sample_(sample) {
    detail::require(sample >= 1, "sketch_ml<", Bits, ">: sample must be at least 1, got 0");
  }

  std::string name() const {
    auto const text = detail::text("sketch_ml<", Bits, ">");
    return sample_ == std::uint64_t{1} << 20 ? text : detail::text(text, "(", sample_, ")");
  }

  template <class In>
  std::size_t side_bytes(shape const& dims) const {
    return dims.n == 0 ? 0 : buckets * sizeof(float);
  }

  template <real In, executor E>
  std::size_t scratch_bytes(E const&, shape const& dims) const {
    return scratch_for<std::uint32_t>(std::min(dims.n, sample_));
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, output<In>> y) const {
    detail::for_comparison<In, E>();
    if (cx.dims.n == 0) return;
    auto const edges = find_edges(draws(cx.id), x.data, cx.dims.n, cx.ws);
    double sums[buckets] = {}, counts[buckets] = {};
    for (std::uint64_t first = 0; first < cx.dims.n; first += detail::octet) {
      std::uint8_t symbols[detail::octet];
      auto const count = std::min(detail::octet, cx.dims.n - first);
      for (std::uint64_t i = 0; i < count; ++i) {
        symbols[i] = edges.bucket(x.data[first + i]);
        sums[symbols[i]] += static_cast<double>(x.data[first + i]), ++counts[symbols[i]];
      }
      detail::pack_octet<Bits>(symbols, count, y.values.data + first / detail::octet * Bits);
    }
    auto* const means = side_as<float>(y.side);
    for (std::uint32_t b = 0; b < buckets; ++b)
      means[b] = counts[b] == 0 ? 0 : finite_or_nan(static_cast<float>(sums[b] / counts[b]));
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, output<In> const> y, values_on<E, In> x) const {
    detail::for_comparison<In, E>();
    auto const* const means = side_as<float>(y.side);
    for (std::uint64_t first = 0; first < cx.dims.n; first += detail::octet) {
      std::uint8_t symbols[detail::octet];
      auto const count = std::min(detail::octet, cx.dims.n - first);
      detail::unpack_octet<Bits>(y.values.data + first / detail::octet * Bits, count, symbols);
      for (std::uint64_t i = 0; i < count; ++i) x.data[first + i] = means[symbols[i]];
    }
  }

 private:
  template <class Space>
  detail::quantile_edges<buckets> find_edges(draws const& random, float const* x, std::uint64_t n,
                                             workspace<Space>& ws) const {
    auto const m = std::min(n, sample_);
    auto* const keys = ws.template take<std::uint32_t>(m).data;
    for (std::uint64_t i = 0; i < m; ++i) {
      keys[i] = detail::ordered_key(x[m == n ? i : random(i / 4).word[i % 4] * n >> 32]);
    }
    std::sort(keys, keys + m);
    return {keys, m};
  }

  std::uint64_t sample_;
};

static_assert(stage<sketch_ml<6>, float, archetype>);
static_assert(!promises_of<sketch_ml<6>>.contractive && !promises_of<sketch_ml<6>>.absolute &&
              reproducible<sketch_ml<6>>);

}}  // namespace pith::PITH_ABI
