// pith/control/rate_controller.hpp — what chooses the rate of each tensor, on all ranks alike.
#pragma once

#include <pith/codec/measured.hpp>
#include <pith/core/error.hpp>
#include <pith/core/span.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace pith::inline v0 {

/// What one rate keeps of one tensor, added up over the ranks, so that all see equal numbers. What is no number on one
/// rank is none on any.
struct rate_report {
  std::uint32_t tensor = 0;
  double rate = 1;
  double energy = 0;        ///< |p|^2 of what was to be sent, residuals included
  double kept = 0;          ///< |p|^2 - |p - D(C(p))|^2, which of a projection is |D(C(p))|^2
  std::uint64_t bytes = 0;  ///< that a rank hands over at this rate

  /// The share that is kept; all of nothing.
  double gain() const { return energy == 0 ? 1 : kept > 0 ? kept / energy : kept == kept ? 0 : kept; }
};

/// What the ranks agree on after a step. A tensor may be reported at several rates; one that does not measure, at none.
struct step_report {
  std::uint64_t step = 0;
  double learning_rate = 0;
  double seconds = 0;  ///< of the slowest rank, from the end of the step before
  span<rate_report const> tensors = {};
  span<double const> gradients = {};  ///< |g|^2 of each tensor, added up over the ranks; empty unless it is asked for
};

/// Decides as a pure function of what it observed, so that ranks which observe equal reports decide alike; what it
/// remembers is saved and loaded as bytes.
///
///   observe(report)        after a step
///   decide(step, tensor)   the rate of a tensor in this step; 1 is dense
///   measures(step, tensor) may be left out: the rates that the report of this step shall have
///   needs_gradients        may be left out: whether it shall have |g|^2
template <class R>
concept rate_controller = std::copyable<R> && requires(R& r, R const& c, step_report const& seen, std::uint64_t step,
                                                       std::uint32_t tensor, span<std::byte const> saved) {
  { c.name() } -> std::convertible_to<std::string>;
  { r.observe(seen) } -> std::same_as<void>;
  { c.decide(step, tensor) } -> std::same_as<double>;
  { c.save() } -> std::same_as<std::vector<std::byte>>;
  { r.load(saved) } -> std::same_as<void>;
};

/// Fails to compile with what `R` lacks to be a controller.
template <class R>
constexpr void explain_controller() {
  static_assert(std::copyable<R>, "pith: a controller must be copyable");
  static_assert(!std::copyable<R> || rate_controller<R>,
                "pith: a controller has std::string name() const, void observe(step_report const&), double "
                "decide(std::uint64_t step, std::uint32_t tensor) const, std::vector<std::byte> save() const and void "
                "load(span<std::byte const>)");
}

namespace detail {

template <class R>
rate_list rates_to_measure(R const& controller, std::uint64_t step, std::uint32_t tensor) {
  if constexpr (requires { controller.measures(step, tensor); }) {
    return controller.measures(step, tensor);
  } else {
    return {};
  }
}

template <class R>
constexpr bool needs_gradients() {
  if constexpr (requires { R::needs_gradients; }) {
    return R::needs_gradients;
  } else {
    return false;
  }
}

/// The average, moved towards a value by a share of what lies between. It divides, since a product would be fused into
/// the sum by some compilers only, and ranks would remember other averages.
inline double moved(double average, double value, double share) { return average + (value - average) / (1 / share); }

}  // namespace detail

template <class T>
concept trivially_copied = std::is_trivially_copyable_v<T>;

/// For controllers: values of a type that is its bytes, saved one after another ...
template <trivially_copied T>
std::vector<std::byte> saved_bytes(T const* values, std::size_t count) {
  auto bytes = std::vector<std::byte>(count * sizeof(T));
  if (count > 0) std::memcpy(bytes.data(), values, bytes.size());
  return bytes;
}
template <trivially_copied T>
std::vector<T> loaded_values(char const* who, span<std::byte const> saved) {
  detail::require(saved.size() % sizeof(T) == 0, who, "::load: the state must have a multiple of ", sizeof(T),
                  " bytes, got ", saved.size());
  auto values = std::vector<T>(saved.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), saved.data(), saved.size());
  return values;
}

}  // namespace pith::inline v0
