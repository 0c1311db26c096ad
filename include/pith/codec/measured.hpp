// pith/codec/measured.hpp — measurement of the energy that a codec would keep at several rates.
#pragma once

#include <pith/codec/context.hpp>
#include <pith/codec/state.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>

namespace pith { inline namespace PITH_ABI {

/// A list of rates. For each rate, a codec measures the energy that compression at this rate would keep.
class rate_list {
 public:
  static constexpr std::size_t most = 8;

  rate_list() = default;
  rate_list(std::initializer_list<double> rates) {
    for (auto const rate : rates) push_back(rate);
  }

  void push_back(double rate) {
    detail::require(0 < rate && rate <= 1, "rate_list: rate must be in (0, 1], got ", rate);
    detail::require(size_ < most, "rate_list: rates must be at most ", most, ", got ", most + 1);
    rates_[size_++] = rate;
  }

  double const* begin() const { return rates_.data(); }
  double const* end() const { return rates_.data() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  double operator[](std::size_t i) const { return rates_[i]; }
  friend bool operator==(rate_list const& a, rate_list const& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<double, most> rates_ = {};
  std::size_t size_ = 0;
};

namespace detail {

/// The measurements of the last encoding, where p is the codec's input: |p|^2, then |p|^2 - |p - D(C(p))|^2 for each
/// rate. Measurements are rank-local and are not saved with the state. For double, energies are infinite or NaN if
/// magnitudes exceed 1e154, and 0 if magnitudes are below 1e-162.
template <executor E>
struct energies {
  static constexpr std::size_t size = 1 + rate_list::most;

  buffer<double, E> values;

  void fields(field_visitor&) {}
};

/// Returns a copy of the codec that measures the kept energy at the given rates. A codec that cannot measure is
/// returned unchanged.
template <class C>
C measuring(C const& c, [[maybe_unused]] rate_list const& rates) {
  if constexpr (requires { c.measuring(rates); }) {
    return c.measuring(rates);
  } else {
    return c;
  }
}

/// A codec that measures the kept energy in the pass that encodes. If the payload span is empty, the codec measures
/// without encoding.
template <class C, class In, class E, class Source>
concept measures_from = requires(C const& c, context<In, E> const& cx, Source const& from, rate_list const& rates,
                                 span_on<E, std::byte> payload, double* energies) {
  c.template encode_measured<In>(cx, from, rates, payload, energies);
  { c.template measured_scratch_bytes<In, E, Source>(cx.exec, cx.dims, rates, true) } -> std::same_as<std::size_t>;
};

/// Sets energies[slot] to energies[0] - *lost.
struct note_kept {
  double* energies;
  double const* lost;
  std::size_t slot;
  PITH_HD void operator()(std::uint64_t) const { energies[slot] = energies[0] - *lost; }
};

}  // namespace detail
}}  // namespace pith::PITH_ABI
