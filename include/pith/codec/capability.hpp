// pith/codec/capability.hpp — the capabilities of codecs: constants and mathematical properties.
#pragma once

#include <pith/core/shape.hpp>

#include <concepts>
#include <optional>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

/// The form in which the transport may add payloads. C encodes, D decodes, x_i is the input of rank i, and N is the
/// number of ranks. If the transport averages payloads (transport::all_reduce_mean), no rank divides by N.
enum class sum_form {
  none,    ///< not summable
  encode,  ///< C(mean x_i) = mean C(x_i). Each rank decodes the sum, then divides by N
  decode,  ///< D(sum C(x_i / N)) = mean D(C(x_i)). Each rank divides its input by N; D may be affine
};

/// How a codec's output size depends on the data.
enum class rate_form {
  fixed,     ///< constant
  variable,  ///< varies with the data, up to a bound
  bounded,   ///< variable, at most shape::capacity entries: further entries are dropped
  fed_back,  ///< as bounded, and dropped entries stay in the residual
};

/// The properties of a codec (C, D) that hold for every shape. A codec declares them as
/// `static constexpr codec_traits traits`.
struct codec_traits {
  /// D(C(x)) is the orthogonal projection of x on a subspace, which may depend on x. Therefore |x|^2 = |D(C(x))|^2 +
  /// |x - D(C(x))|^2.
  bool projection = false;
  /// |D(y) - D(z)| = |y - z|. Decoding with D does not change the norm of later stages' errors.
  bool isometric = false;
  /// |C(x)| = |x|, D(C(x)) = x and |D(y) - D(z)| <= |y - z|. Decoding with D does not increase the norm of later
  /// stages' errors. D need not be isometric, because C may add padding, which D removes.
  bool rotation = false;
  /// D(y) = A y + D(0), and D(0) may differ from 0. If an all-reduce sums payloads z_i, rank i's own share of the mean
  /// D(sum z_i) is then N (D(z_i) - D(0)) + D(0), which takes two decodings.
  bool affine = false;
  /// Payloads and states are bitwise equal on all executors, instruction sets and compilers.
  bool reproducible = false;
  /// decode_ranks returns the ranks' majority vote instead of a sum. True also for codecs around such a codec.
  bool votes = false;
  /// The values are ternary symbols of two bits.
  bool ternary = false;
  /// No stage can follow this codec in a chain.
  bool terminal = false;
  /// Only the codec's rounds (`produce` and `absorb`) use its replicated state; `encode` and `decode` do not. In a
  /// chain that does not use these rounds, the state is empty.
  bool keeps_for_exchange = false;
  /// The codec is a collective that may be the last stage of a chain whose other stages are summable. The chain then
  /// uses the rounds of this collective. The collective reads the gradient only in `produce`, and can return a rank's
  /// own share.
  bool sums_in_chains = false;
  /// Only one rank receives each element of the mean. On the other ranks, the element is unspecified.
  bool scatters = false;
  /// The form in which the emitted values may be summed. A summable codec has no side information.
  sum_form sums = sum_form::none;
  /// How the number of emitted values depends on the data. If this number is variable, the side information contains
  /// the number at the offset count_offset, and the output shape gives an upper bound.
  rate_form rates = rate_form::fixed;

  constexpr bool is_summable() const { return sums != sum_form::none; }
  constexpr bool is_variable() const { return rates != rate_form::fixed; }
};

class codec_base;

namespace detail {

template <class S>
constexpr codec_traits declared_traits() {
  if constexpr (std::derived_from<S, codec_base>) {
    return S::traits;
  } else {
    return {};
  }
}

}  // namespace detail

/// The traits of codec `S`. For a class that is not a codec, all traits have their default values: false, not summable,
/// fixed rate.
template <class S>
inline constexpr codec_traits traits_of = detail::declared_traits<std::remove_cvref_t<S>>();

namespace detail {

template <class S>
concept has_omega = requires(S const& s, shape const& dims) {
  { s.omega(dims) } -> std::same_as<double>;
};
template <class S>
concept has_delta = requires(S const& s, shape const& dims) {
  { s.delta(dims) } -> std::same_as<double>;
};
template <class S>
concept has_error_bound = requires(S const& s, shape const& dims) {
  { s.error_bound(dims) } -> std::same_as<double>;
};

}  // namespace detail

/// The promises about a codec's error. A member is true if the codec has the function that its comment names. The value
/// of this function depends on the shape; a delta of 0 or less promises nothing.
struct error_promises {
  /// omega(dims): E D(C(x)) = x, and E|D(C(x)) - x|^2 <= omega |x|^2.
  bool unbiased;
  /// delta(dims): E|D(C(x)) - x|^2 <= (1 - delta) |x|^2.
  bool contractive;
  /// error_bound(dims): |D(C(x)) - x| <= error_bound for each element.
  bool absolute;
};

/// The promises of codec `S`, for example `promises_of<S>.unbiased`. A type-erased codec makes its promises only at run
/// time: capabilities_of(codec, dims) returns them.
template <class S>
inline constexpr error_promises promises_of = {
    .unbiased = detail::has_omega<S>,
    .contractive = detail::has_delta<S>,
    .absolute = detail::has_error_bound<S>,
};

namespace detail {

/// The rate form of a chain of two stages with the rate forms a and b. If both rates are variable, the result is
/// `variable`, because a capacity can limit only one stage.
constexpr rate_form joined_rate(rate_form a, rate_form b) {
  if (a == rate_form::fixed) return b;
  return b == rate_form::fixed ? a : rate_form::variable;
}
/// The rate form of a codec inside error feedback.
constexpr rate_form fed_back_rate(rate_form form) { return form == rate_form::bounded ? rate_form::fed_back : form; }

/// A codec with at(rate), which returns the same codec at another rate. The states of both codecs have the same types.
/// If states_follow_rate() is false, the states also have the same sizes, and a state of one codec is valid for both.
template <class S>
concept rate_adjustable = requires(S const& s, double rate) {
  { s.at(rate) } -> std::same_as<std::remove_cvref_t<S>>;
};

/// Returns the stage at another rate, or the same stage if it has no rate.
template <class S>
constexpr S at(S const& s, [[maybe_unused]] double rate) {
  if constexpr (rate_adjustable<S>) {
    return s.at(rate);
  } else {
    return s;
  }
}

/// True if the codec has an adjustable rate. Whether a type-erased codec has an adjustable rate is known only at run
/// time.
template <class S>
bool has_rate(S const& s) {
  if constexpr (requires {
                  { s.has_rate() } -> std::same_as<bool>;
                }) {
    return s.has_rate();
  } else {
    return rate_adjustable<S>;
  }
}

template <class S>
concept declares_reproducible = requires {
  requires S::is_reproducible;
};

}  // namespace detail

/// True if the results of S are bitwise equal on all executors, instruction sets and compilers. S is a codec, a feedback
/// policy, a rule or a matrix product.
template <class S>
inline constexpr bool reproducible = traits_of<S>.reproducible || detail::declares_reproducible<std::remove_cvref_t<S>>;

/// The capabilities of a codec as run-time values, for type-erased codecs.
struct capabilities : codec_traits {
  std::optional<double> omega, delta, error_bound;

  /// Returns delta. If only omega is known, returns 1 - omega: an unbiased codec with omega < 1 is a contraction.
  std::optional<double> contraction() const { return delta ? delta : omega ? std::optional(1 - *omega) : std::nullopt; }
};

namespace detail {

/// The delta of a chain of two stages with deltas a and b, where the first stage is an isometric projection or a
/// rotation. If b is negative, the result is b: the chain's error is then largest for inputs that the first stage
/// encodes without error.
constexpr double joined_delta(double a, double b) { return b < 0 ? b : a * b; }

/// A codec that returns its capabilities at run time.
template <class S>
concept erased = requires(S const& s, shape const& dims) {
  { s.capabilities_for(dims) } -> std::same_as<capabilities>;
};

}  // namespace detail

/// Returns the capabilities of a codec, for tables, messages and run-time composition.
template <class S>
capabilities capabilities_of(S const& s, shape const& dims) {
  if constexpr (detail::erased<S>) {
    return s.capabilities_for(dims);
  } else {
    auto of = capabilities{traits_of<S>, {}, {}, {}};
    if constexpr (promises_of<S>.unbiased) of.omega = s.omega(dims);
    if constexpr (promises_of<S>.contractive) of.delta = s.delta(dims);
    if constexpr (promises_of<S>.absolute) of.error_bound = s.error_bound(dims);
    return of;
  }
}

}}  // namespace pith::PITH_ABI
