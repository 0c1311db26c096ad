// pith/codec/capability.hpp — the capabilities of codecs: constants and mathematical properties.
#pragma once

#include <pith/core/call.hpp>

#include <concepts>
#include <optional>
#include <type_traits>

namespace pith::inline v0 {

/// The form in which payloads may be summed in flight. x_i is the input of rank i, and N is the number of ranks.
enum class sum_form {
  none,    ///< not summable
  encode,  ///< C(mean x_i) = mean C(x_i). The sum is decoded, then divided by N
  decode,  ///< D(sum C(x_i / N)) = mean D(C(x_i)). Inputs are divided by N; D may be affine
};

/// Unbiased: E D(C(x)) = x and E|D(C(x)) - x|^2 <= omega |x|^2.
template <class S>
concept unbiased = requires(S const& s, shape const& dims) {
  { s.omega(dims) } -> std::same_as<double>;
};

/// Contractive: E|D(C(x)) - x|^2 <= (1 - delta) |x|^2.
template <class S>
concept contractive = requires(S const& s, shape const& dims) {
  { s.delta(dims) } -> std::same_as<double>;
};

/// Bounded error: |D(C(x)) - x| <= error_bound for each element.
template <class S>
concept absolute = requires(S const& s, shape const& dims) {
  { s.error_bound(dims) } -> std::same_as<double>;
};

/// D(C(x)) is the orthogonal projection of x on a subspace, which may depend on x. Therefore |x|^2 = |D(C(x))|^2 + |x -
/// D(C(x))|^2.
template <class S>
concept projection = requires {
  requires std::remove_cvref_t<S>::is_projection;
};

/// D is isometric: |D(y) - D(z)| = |y - z|. Decoding with D does not change the norm of later stages' errors.
template <class S>
concept isometric = requires {
  requires std::remove_cvref_t<S>::is_isometric;
};

/// A rotation: |C(x)| = |x|, D(C(x)) = x and |D(y) - D(z)| <= |y - z|. Decoding with D does not increase the norm of
/// later stages' errors. D need not be isometric, because C may add padding, which D removes.
template <class S>
concept rotation = requires {
  requires std::remove_cvref_t<S>::is_rotation;
};

/// The emitted values may be summed in flight, and there is no side information.
template <class S>
concept summable = requires {
  requires std::remove_cvref_t<S>::sums != sum_form::none;
};

/// D is affine: D(y) = A y + D(0). If D is affine, a codec decodes twice, not once, to compute a rank's own share of
/// D(sum).
template <class S>
concept affine = requires {
  requires std::remove_cvref_t<S>::is_affine;
};

/// The number of emitted values depends on the data. Side information begins with this number. The output shape gives
/// an upper bound of this number.
template <class S>
concept variable_rate = requires {
  requires std::remove_cvref_t<S>::is_variable_rate;
};

template <class S>
concept fixed_rate = !variable_rate<S>;

/// The dependence of a codec's output size on the data.
enum class rate_form {
  fixed,     ///< constant
  variable,  ///< varies with the data, up to a bound
  bounded,   ///< variable, and shape::capacity bounds it: excess entries are dropped
  fed_back,  ///< as bounded, and dropped entries stay in the residual
};

template <class S>
constexpr rate_form rate_form_of() {
  if constexpr (requires { std::remove_cvref_t<S>::rates; }) {
    return std::remove_cvref_t<S>::rates;
  } else {
    return variable_rate<S> ? rate_form::variable : rate_form::fixed;
  }
}

namespace detail {

/// The rate form of a | b. A capacity can limit only one stage.
constexpr rate_form joined_rate(rate_form a, rate_form b) {
  if (a == rate_form::fixed) return b;
  return b == rate_form::fixed ? a : rate_form::variable;
}
/// The rate form of a codec inside error feedback.
constexpr rate_form fed_back_rate(rate_form form) { return form == rate_form::bounded ? rate_form::fed_back : form; }

}  // namespace detail

/// at(rate) returns the same codec at another rate. The states of both codecs have the same types. Unless
/// states_follow_rate(), the states also have the same sizes and remain valid.
template <class S>
concept rate_adjustable = requires(S const& s, double rate) {
  { s.at(rate) } -> std::same_as<std::remove_cvref_t<S>>;
};

namespace detail {

/// True if the sizes of states depend on the rate. Such a state cannot be reused at another rate.
template <class S>
bool states_follow_rate(S const& s) {
  if constexpr (requires {
                  { s.states_follow_rate() } -> std::same_as<bool>;
                }) {
    return s.states_follow_rate();
  } else {
    return false;
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

}  // namespace detail

/// Let `b` be codec `a` at a smaller rate. Then C_b(C_a(x)) = C_b(x), so a payload can be compressed further.
template <class S>
concept nestable = requires {
  requires std::remove_cvref_t<S>::is_nestable;
};

/// Payloads and states are bitwise equal on all executors, instruction sets and compilers.
template <class S>
concept reproducible = requires {
  requires std::remove_cvref_t<S>::is_reproducible;
};

/// The codec's state is used only if the codec is exchanged outside a chain. `encode` and `decode` do not use the
/// state, so a stage of a chain has no state.
template <class S>
concept keeps_for_exchange = requires {
  requires std::remove_cvref_t<S>::keeps_for_exchange;
};

/// A collective that may be the last stage of a chain whose other stages are summable. The chain then uses the rounds
/// of this collective. The collective reads x only in produce, and can return a rank's own share.
template <class S>
concept sums_in_chains = requires {
  requires std::remove_cvref_t<S>::sums_in_chains;
};

/// The capabilities of a codec as run-time values, for type-erased codecs.
struct capabilities {
  std::optional<double> omega, delta, error_bound;
  bool projection = false, isometric = false, rotation = false, reproducible = false, affine = false;
  sum_form sums = sum_form::none;
  rate_form rates = rate_form::fixed;

  /// The codec's delta. For an unbiased codec with omega < 1, delta is 1 - omega.
  std::optional<double> contraction() const { return delta ? delta : omega ? std::optional(1 - *omega) : std::nullopt; }
};

namespace detail {

/// The delta of a | b, where a is an isometric projection. If b is not contractive, the worst x lies in the subspace of
/// the projection.
constexpr double joined_delta(double a, double b) { return b < 0 ? b : a * b; }

}  // namespace detail

/// A codec that returns its capabilities at run time.
template <class S>
concept erased = requires(S const& s, shape const& dims) {
  { s.capabilities_for(dims) } -> std::same_as<capabilities>;
};

template <class S>
constexpr sum_form sum_form_of() {
  if constexpr (summable<S>) {
    return std::remove_cvref_t<S>::sums;
  } else {
    return sum_form::none;
  }
}

/// Returns the capabilities of a codec, for tables, messages and run-time composition.
template <class S>
capabilities capabilities_of(S const& s, shape const& dims) {
  if constexpr (erased<S>) {
    return s.capabilities_for(dims);
  } else {
    auto of = capabilities();
    if constexpr (unbiased<S>) of.omega = s.omega(dims);
    if constexpr (contractive<S>) of.delta = s.delta(dims);
    if constexpr (absolute<S>) of.error_bound = s.error_bound(dims);
    of.projection = projection<S>;
    of.isometric = isometric<S>;
    of.rotation = rotation<S>;
    of.reproducible = reproducible<S>;
    of.affine = affine<S>;
    of.sums = sum_form_of<S>();
    of.rates = rate_form_of<S>();
    return of;
  }
}

}  // namespace pith::inline v0
