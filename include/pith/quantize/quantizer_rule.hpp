// pith/quantize/quantizer_rule.hpp — the concept of a rule, which defines a scalar quantizer's mathematics.
#pragma once

#include <pith/config.hpp>
#include <pith/core/facets.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI {

namespace ext {

struct chosen_terms {};  ///< with_terms
struct refined {};       ///< refine
struct scaled {};        ///< scaled
struct members {};       ///< members
struct candidates {};    ///< candidate, candidates, chooses
struct tensor {};        ///< tensor_scale, tensor
struct scale_free {};    ///< `code` needs no scale
struct sign {};          ///< `code` is x < 0

}  // namespace ext

/// The empty scale type of a rule without scales.
template <class A>
struct unscaled {};

namespace detail {

/// True if the rule has one scale per bucket.
template <class R, class A>
concept measures = requires(R const& r) {
  r.finish(r.measure(A{}), std::uint64_t{}, A{});
};

template <class R, class A>
struct rule_types {
  struct statistic {};
  using scale = unscaled<A>;
};
template <class R, class A>
  requires measures<R, A>
struct rule_types<R, A> {
  using statistic = decltype(std::declval<R const&>().measure(A{}));
  using scale = decltype(std::declval<R const&>().finish(statistic(), std::uint64_t{}, A{}));
};

}  // namespace detail

/// A rule computes a statistic and a scale for each bucket, and a symbol for each element. All functions are PITH_HD:
///
///     statistic measure(A x)                            the contribution of x to its bucket's statistic, which is one
///                                                       or a few doubles
///     statistic merge(statistic, statistic)             merges two statistics; for magnitudes, merge is larger_or_nan
///     scale     finish(statistic, uint64 count, A{})    the scale, which is one or a few values of A or of a narrower
///                                                       type; NaN instead of infinity
///     uint32    code(A x, scale, uint16 random)         the symbol, in [0, 2^bits)
///     A         value(uint32 symbol, scale)             the decoded value; NaN for a NaN scale
///
/// Facets, which a rule declares as `using facets = ext::facets<...>` (core/facets.hpp):
///
///     ext::refined      refined refine(scale)           the argument of `code` that replaces the scale
///     ext::scaled       scaled scaled(scale, A power)   the argument of `value` that replaces the scale, so that the
///                                                       decoded value is multiplied by a power of two. Without
///                                                       `scaled`, the sum of several payloads may overflow even if
///                                                       their mean does not
///     ext::members      double statistic::*members[]    all members of the statistic, if `merge` merges each member
///                                                       separately. Vector instructions can then measure a large
///                                                       bucket
///     ext::candidates   scale candidate(scale, i)       a scale that may replace a bucket's scale; candidate 0 is the
///                                                       scale itself. If the member `chooses` is true, a bucket takes
///                                                       the one of the first `candidates` candidates with the least
///                                                       squared error. The codec then allows buckets of 2^k elements,
///                                                       at most 256
///     ext::tensor       A tensor_scale(double, A{})     the scale of the tensor, from its largest finite magnitude. The
///                                                       side information begins with this scale. During encoding,
///                                                       the member `void const* tensor` points to it. `scaled` receives
///                                                       it as a factor of `power`
///     ext::scale_free                                   `code` needs no scale. The pass that computes the statistics
///                                                       of large buckets then also writes symbols
///     ext::sign                                         `code` is x < 0. Symbols are then packed directly
///
/// A rule has either all of the functions `measure`, `merge` and `finish`, or none of these. A rule without these
/// functions has no scales and no side information, and its `code` and `value` receive an unscaled<A> as the scale.
template <class R, class A>
using statistic_of = typename detail::rule_types<R, A>::statistic;
template <class R, class A>
using scale_of = typename detail::rule_types<R, A>::scale;

namespace detail {

template <class R, class Scale>
PITH_HD auto refine(R const& rule, Scale scale) {
  if constexpr (requires { rule.refine(scale); }) {
    return rule.refine(scale);
  } else {
    return scale;
  }
}

/// True if the rule has `scaled`.
template <class R, class A>
concept scalable = requires(R const& r, scale_of<R, A> scale, A power, std::uint32_t symbol) {
  { r.value(symbol, r.scaled(scale, power)) } -> std::same_as<A>;
};

/// Returns scales[j]. For a rule without scales, the function reads no memory.
template <class Scale>
PITH_HD Scale scale_at([[maybe_unused]] Scale const* scales, [[maybe_unused]] std::uint64_t j) {
  if constexpr (std::is_empty_v<Scale>) {
    return {};
  } else {
    return scales[j];
  }
}

template <class R>
concept needs_no_scale = measures<R, float> && declares<R, ext::scale_free>;

/// The number of members of the statistic if the rule declares `members`, and 0 otherwise.
template <class R>
inline constexpr std::size_t member_count = 0;
template <class R>
  requires requires { R::members[0]; }
inline constexpr std::size_t member_count<R> = std::extent_v<decltype(R::members)>;

template <class R>
concept sign_only = declares<R, ext::sign>;

/// True if the rule has a scale of the tensor.
template <class R>
concept has_tensor_scale = requires(R& r) {
  r.tensor_scale(0.0, 0.0f);
  r.tensor = static_cast<void const*>(nullptr);
};

/// The length of the shortest rows for which loops are compiled with a constant length. Formats with a scale of the
/// tensor have buckets of 16 elements.
template <class R>
inline constexpr std::uint32_t short_row = has_tensor_scale<R> ? 16 : 32;

/// True if the rule has `merge`, or has no statistic.
template <class R, class A>
concept merges = !measures<R, A> || requires(R const& r, statistic_of<R, A> statistic) {
  { r.merge(statistic, statistic) } -> std::same_as<statistic_of<R, A>>;
};

}  // namespace detail

template <class R, class A>
using refined_of = decltype(detail::refine(std::declval<R const&>(), std::declval<scale_of<R, A>>()));

template <class R, class A>
concept quantizer_rule = std::is_trivially_copyable_v<statistic_of<R, A>> &&
    std::is_trivially_copyable_v<scale_of<R, A>> && std::is_trivially_copyable_v<refined_of<R, A>> &&
    detail::merges<R, A> && requires(R const& r, A x, scale_of<R, A> scale, refined_of<R, A> refined,
                                     std::uint32_t symbol, std::uint16_t random) {
  { R::bits } -> std::convertible_to<int>;
  { R::draws } -> std::convertible_to<bool>;
  { r.code(x, refined, random) } -> std::same_as<std::uint32_t>;
  { r.value(symbol, scale) } -> std::same_as<A>;
};

}}  // namespace pith::PITH_ABI
