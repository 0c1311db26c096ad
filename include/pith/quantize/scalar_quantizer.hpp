// pith/quantize/scalar_quantizer.hpp — the engine of quantizers: a symbol per element, a scale per bucket.
#pragma once

#include <pith/core/capability.hpp>
#include <pith/core/pack.hpp>
#include <pith/core/stage.hpp>
#include <pith/core/summation.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace pith::inline v0 {

/// The mathematics of a scalar quantizer, all PITH_HD: a statistic per bucket, a scale from it, a symbol per element.
///
///     statistic measure(A x)                            what x adds to its bucket's statistic: a double or a few
///     statistic merge(statistic, statistic)             joins two
///     scale     finish(statistic, uint64 count, A{})    the scale, a number or a few of A; NaN if it is not finite
///     uint32    code(A x, scale, uint16 random)         the symbol, below 2^bits
///     A         value(uint32 symbol, scale)             what it stands for; NaN for a NaN scale
template <class R, class A>
using statistic_of = decltype(std::declval<R const&>().measure(A{}));
template <class R, class A>
using scale_of = decltype(std::declval<R const&>().finish(statistic_of<R, A>(), std::uint64_t{}, A{}));

template <class R, class A>
concept quantizer_rule = std::is_trivially_copyable_v<statistic_of<R, A>> &&
    std::is_trivially_copyable_v<scale_of<R, A>> &&
    requires(R const& r, A x, statistic_of<R, A> statistic, scale_of<R, A> scale, std::uint32_t symbol,
             std::uint16_t random) {
  { R::bits } -> std::convertible_to<int>;
  { R::draws } -> std::convertible_to<bool>;
  { r.merge(statistic, statistic) } -> std::same_as<statistic_of<R, A>>;
  { r.code(x, scale, random) } -> std::same_as<std::uint32_t>;
  { r.value(symbol, scale) } -> std::same_as<A>;
};

namespace detail {

template <class Rule, class In>
using scale_for = scale_of<Rule, accum<In>>;
template <class Rule, class In>
using statistic_for = statistic_of<Rule, accum<In>>;

/// The statistic's terms, and how they merge, in the form that reductions take.
template <class Rule, class In>
struct measured {
  Rule rule;
  In const* x;
  PITH_HD auto operator()(std::uint64_t i) const { return rule.measure(element_cast<accum<In>>(x[i])); }
};
template <class Rule>
struct merged {
  Rule rule;
  template <class T>
  PITH_HD T operator()(T const& a, T const& b) const {
    return rule.merge(a, b);
  }
};

/// The scale of bucket b, measured in the tree's order.
template <class Rule, class In>
struct scale_bucket {
  Rule rule;
  In const* x;
  scale_for<Rule, In>* scales;
  std::uint64_t n, bucket;

  PITH_HD void operator()(std::uint64_t b) const {
    auto const first = b * bucket;
    auto const count = n - first < bucket ? n - first : bucket;
    auto const total =
        reduce_tree(first, count, measured<Rule, In>{rule, x}, merged<Rule>{rule}, statistic_for<Rule, In>());
    scales[b] = rule.finish(total, count, accum<In>{});
  }
};

/// The scale of a single bucket whose statistic is known.
template <class Rule, class In>
struct finish_scale {
  Rule rule;
  statistic_for<Rule, In> const* statistic;
  scale_for<Rule, In>* scale;
  std::uint64_t n;
  PITH_HD void operator()(std::uint64_t) const { *scale = rule.finish(*statistic, n, accum<In>{}); }
};

/// The symbols of group g. A bucket is a multiple of a group, so that a group has one scale.
template <class Rule, class In>
struct encode_group {
  Rule rule;
  draws random;
  In const* x;
  scale_for<Rule, In> const* scales;
  std::uint8_t* bytes;
  std::uint64_t n, bucket;

  PITH_HD void operator()(std::uint64_t g) const {
    auto const count = group_size(g, n);
    auto const scale = scales[g * group / bucket];
    random_block block = {};
    std::uint32_t symbols[group];
    if constexpr (Rule::draws) block = random(g);
    for (std::uint64_t i = 0; i < count; ++i) {
      symbols[i] = rule.code(element_cast<accum<In>>(x[g * group + i]), scale, block.lane(static_cast<unsigned>(i)));
    }
    pack(symbols, count, Rule::bits, bytes + g * Rule::bits);
  }
};

template <class Rule, class In>
struct decode_group {
  Rule rule;
  std::uint8_t const* bytes;
  scale_for<Rule, In> const* scales;
  In* x;
  std::uint64_t n, bucket;

  PITH_HD void operator()(std::uint64_t g) const {
    auto const count = group_size(g, n);
    auto const scale = scales[g * group / bucket];
    std::uint32_t symbols[group];
    unpack(bytes + g * Rule::bits, count, Rule::bits, symbols);
    for (std::uint64_t i = 0; i < count; ++i) x[g * group + i] = element_cast<In>(rule.value(symbols[i], scale));
  }
};

}  // namespace detail

/// A stage from a rule. `Rule` is the mathematics; buckets, packing, randomness and both directions come from here.
///
///   emits    n symbols of Rule::bits bits; side record: one scale (of float, double for double) per bucket
///   needs    a bucket of 0 (the whole tensor) or a multiple of 8 elements (std::invalid_argument)
///   keeps    nothing
///   is       reproducible if the rule says so: no product and sum that a fused multiply-add could round otherwise
///   cost     two reads of x; scratch 128 bytes for a whole-tensor bucket
///   errors   a bucket that holds NaN or infinity decodes to NaN
template <class Rule>
class scalar_quantizer : public pipeable {
  static_assert(
      quantizer_rule<Rule, float>,
      "pith: scalar_quantizer<Rule> needs bits, draws, measure, merge, finish, code and value: see quantizer_rule");

 public:
  template <class In>
  using output = packed<Rule::bits>;

  static constexpr bool is_reproducible = requires { requires Rule::is_reproducible; };

  explicit constexpr scalar_quantizer(Rule rule, std::uint64_t bucket) : rule_(rule), bucket_(bucket) {
    detail::require(bucket % detail::group == 0,
                    "scalar_quantizer: bucket must be 0 (whole tensor) or a multiple of 8, got ", bucket);
  }

  constexpr Rule const& rule() const { return rule_; }
  constexpr std::uint64_t bucket() const { return bucket_; }

  /// The elements that share a scale in a tensor of n.
  constexpr std::uint64_t bucket_of(std::uint64_t n) const { return bucket_ == 0 || bucket_ > n ? n : bucket_; }

  template <real In>
  constexpr std::size_t side_bytes(shape const& dims) const {
    return buckets(dims.n) * sizeof(detail::scale_for<Rule, In>);
  }
  template <real In, executor E>
  constexpr std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    using statistic = detail::statistic_for<Rule, In>;
    return bucket_ == 0 ? scratch_for<statistic>(1) + exec.template reduce_scratch_bytes<statistic>(dims.n) : 0;
  }

  template <real In, executor E>
  void encode(E const& exec, call const& id, shape const& dims, stream_on<E, In const> x, encoded_on<E, output<In>> y,
              workspace_on<E>& ws) const {
    auto* const scales = side_as<detail::scale_for<Rule, In>>(y.side);
    if (bucket_ == 0) {
      measure_all(exec, x, scales, ws);
    } else {
      exec.for_each_index(buckets(dims.n), detail::scale_bucket<Rule, In>{rule_, x.data, scales, dims.n, bucket_});
    }
    exec.for_each_index(detail::groups(dims.n), detail::encode_group<Rule, In>{rule_, draws(id), x.data, scales,
                                                                               y.values.data, dims.n, stride(dims.n)});
  }
  template <real In, executor E>
  void decode(E const& exec, shape const& dims, encoded_on<E, output<In> const> y, stream_on<E, In> x,
              workspace_on<E>&) const {
    auto* const scales = side_as<detail::scale_for<Rule, In>>(y.side);
    exec.for_each_index(detail::groups(dims.n),
                        detail::decode_group<Rule, In>{rule_, y.values.data, scales, x.data, dims.n, stride(dims.n)});
  }

 private:
  constexpr std::uint64_t buckets(std::uint64_t n) const {
    return bucket_ == 0 ? n != 0 : n / bucket_ + (n % bucket_ != 0);
  }
  /// A bucket size that maps every element of a whole tensor to scale 0.
  constexpr std::uint64_t stride(std::uint64_t n) const { return bucket_ == 0 ? n + detail::group : bucket_; }

  template <class E, class In>
  void measure_all(E const& exec, stream_on<E, In const> x, detail::scale_for<Rule, In>* scale,
                   workspace_on<E>& ws) const {
    using statistic = detail::statistic_for<Rule, In>;
    if (x.capacity == 0) return;
    auto* const total = ws.template take<statistic>(1).data;
    exec.reduce_into(total, x.capacity, detail::measured<Rule, In>{rule_, x.data}, detail::merged<Rule>{rule_},
                     statistic(), ws);
    exec.for_each_index(1, detail::finish_scale<Rule, In>{rule_, total, scale, x.capacity});
  }

  Rule rule_;
  std::uint64_t bucket_;
};

}  // namespace pith::inline v0
