// pith/control/rate_controller.hpp — concept of a controller, which chooses each tensor's rate.
#pragma once

#include <pith/codec/measured.hpp>
#include <pith/core/error.hpp>
#include <pith/core/facets.hpp>
#include <pith/core/span.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// The energies (squared norms) of one tensor at one rate, summed over the ranks. So the energies are equal on all
/// ranks, and are NaN if a rank measured NaN.
struct rate_report {
  std::uint32_t tensor = 0;
  double rate = 1;
  double energy = 0;        ///< |p|^2, where p is the encoder's input, including the residual
  double kept = 0;          ///< |p|^2 - |p - D(C(p))|^2; for a projection, |D(C(p))|^2
  std::uint64_t bytes = 0;  ///< bytes of one rank's payload at this rate

  /// max(0, kept / energy); 1 if energy = 0; NaN if `kept` is NaN.
  double gain() const { return energy == 0 ? 1 : kept > 0 ? kept / energy : kept == kept ? 0 : kept; }
};

/// The measurements of a step, which are equal on all ranks. A tensor has one rate_report per measured rate, and none
/// if its codec measures no energies.
struct step_report {
  std::uint64_t step = 0;
  double learning_rate = 0;
  double seconds = 0;  ///< seconds since the end of the previous step, or since restart_clock(), on the slowest rank
  span<rate_report const> tensors = {};
  span<double const> gradients = {};  ///< |g|^2 per tensor, summed over the ranks; empty without ext::gradient_norms
};

/// A controller chooses the rate of each tensor in each step. Its decisions are a pure function of its reports, so
/// ranks with equal reports make equal decisions. `save()` and `load()` convert the controller's state to bytes and
/// back. A controller holds no references to other objects, and only one thread at a time uses it.
///
///   observe(report)        receives the measurements after a step
///   decide(step, tensor)   returns the rate of a tensor in this step; 1 is dense
///   load(bytes)            throws std::invalid_argument for a wrong state, and then changes nothing
///
/// Facets, which a controller declares as `using facets = ext::facets<...>` (core/facets.hpp):
///
///   ext::energies          measures(step, tensor) returns the rates at which the tensor's energies are measured in this
///                          step
///   ext::gradient_norms    reports include |g|^2
template <class R>
concept rate_controller = std::copyable<R> && requires(R& r, R const& c, step_report const& seen, std::uint64_t step,
                                                       std::uint32_t tensor, span<std::byte const> saved) {
  { c.name() } -> std::convertible_to<std::string>;
  { r.observe(seen) } -> std::same_as<void>;
  { c.decide(step, tensor) } -> std::same_as<double>;
  { c.save() } -> std::same_as<std::vector<std::byte>>;
  { r.load(saved) } -> std::same_as<void>;
};

namespace ext {

struct energies {};        ///< measures
struct gradient_norms {};  ///< reports include |g|^2

}  // namespace ext

namespace detail {

/// The names of all members of a controller's facets.
struct controller_members {
  int measures;
};

template <class R>
concept measures_energies = requires(R const& r, std::uint64_t step, std::uint32_t tensor) {
  { r.measures(step, tensor) } -> std::same_as<rate_list>;
};

template <class C>
struct controller_check {
  PITH_CHECK_FACET("controller", controller_members, energies, measures, measures_energies<C>,
                   "rate_list measures(std::uint64_t step, std::uint32_t tensor) const");
};

}  // namespace detail

/// Fails to compile if `R` is not a controller, or if its facets do not fit its members. The error names the function.
template <class R>
constexpr void explain_controller() {
  static_cast<void>(detail::controller_check<R>());
  static_assert(std::copyable<R>, "pith: a controller must be copyable");
  static_assert(!std::copyable<R> || rate_controller<R>,
                "pith: a controller has std::string name() const, void observe(step_report const&), double "
                "decide(std::uint64_t step, std::uint32_t tensor) const, std::vector<std::byte> save() const and void "
                "load(span<std::byte const>)");
}

namespace detail {

template <class R>
rate_list rates_to_measure(R const& controller, [[maybe_unused]] std::uint64_t step,
                           [[maybe_unused]] std::uint32_t tensor) {
  if constexpr (declares<R, ext::energies>) {
    return controller.measures(step, tensor);
  } else {
    return {};
  }
}

/// Returns average + share x (value - average). The code divides by 1 / share, because some compilers would fuse a
/// product with the sum. Ranks with different compilers would then compute different averages.
inline double moved(double average, double value, double share) { return average + (value - average) / (1 / share); }

template <class T>
concept trivially_copied = std::is_trivially_copyable_v<T>;

}  // namespace detail

/// Helpers for `save()` and `load()`, which convert trivially copyable values to bytes and back.
template <detail::trivially_copied T>
std::vector<std::byte> saved_bytes(T const* values, std::size_t count) {
  auto bytes = std::vector<std::byte>(count * sizeof(T));
  if (count > 0) std::memcpy(bytes.data(), values, bytes.size());
  return bytes;
}
template <detail::trivially_copied T>
std::vector<T> loaded_values(char const* who, span<std::byte const> saved) {
  detail::require(saved.size() % sizeof(T) == 0, who, "::load: the state must have a multiple of ", sizeof(T),
                  " bytes, got ", saved.size());
  auto values = std::vector<T>(saved.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), saved.data(), saved.size());
  return values;
}

}}  // namespace pith::PITH_ABI
