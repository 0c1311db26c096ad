// pith/core/detail/convert.hpp — element-wise function objects that many codecs share.
#pragma once

#include <pith/core/detail/runs.hpp>
#include <pith/core/element.hpp>
#include <pith/core/values.hpp>

#include <cstdint>
#include <type_traits>

namespace pith { inline namespace PITH_ABI { namespace detail {

// A function object with `are_aligned` also processes a run (runs.hpp) that begins at element i. If are_aligned()
// returns true, a device reads and writes 16 bytes at once.

/// Sets to[i] to from[i], converted to `To`.
template <class To, class From>
struct convert {
  From const* from;
  To* to;
  PITH_HD void operator()(std::uint64_t i) const { to[i] = element_cast<To>(from[i]); }
  template <class Run>
  PITH_HD void operator()(std::uint64_t i, Run const& run) const {
    auto const x = run.read(from + i);
    run.write(to + i, [&](std::uint32_t lane) { return element_cast<To>(x[lane]); });
  }
  bool are_aligned() const { return is_vector_aligned(from) && is_vector_aligned(to); }
};

/// Sets *to to a value.
template <class T>
struct set_value {
  T* to;
  T value;
  PITH_HD void operator()(std::uint64_t) const { *to = value; }
};

/// Sets to[i] to from[i], converted to `To`. Finite values beyond the range of To become its largest finite value.
template <class To, class From>
struct saturate {
  From const* from;
  To* to;
  PITH_HD void operator()(std::uint64_t i) const { to[i] = bounded(from[i]); }
  template <class Run>
  PITH_HD void operator()(std::uint64_t i, Run const& run) const {
    auto const x = run.read(from + i);
    run.write(to + i, [&](std::uint32_t lane) { return bounded(x[lane]); });
  }
  bool are_aligned() const { return is_vector_aligned(from) && is_vector_aligned(to); }

 private:
  PITH_HD static To bounded(From v) { return saturated_cast<To>(element_cast<accum<To>>(v)); }
};

/// Sets to[i] to from[i] times `factor`, computed in accum<To>. The product of finite numbers is finite.
template <class To, class From>
struct scale {
  From const* from;
  To* to;
  accum<To> factor;
  PITH_HD void operator()(std::uint64_t i) const { to[i] = scaled(from[i]); }
  template <class Run>
  PITH_HD void operator()(std::uint64_t i, Run const& run) const {
    auto const x = run.read(from + i);
    run.write(to + i, [&](std::uint32_t lane) { return scaled(x[lane]); });
  }
  bool are_aligned() const { return is_vector_aligned(from) && is_vector_aligned(to); }

 private:
  PITH_HD To scaled(From v) const { return saturated_cast<To>(bounded_product(factor, element_cast<accum<To>>(v))); }
};

/// Sets to[i] to from[i] times *factor. `factor` points into the executor's memory. A factor that has few or no digits in
/// accum<To> is applied in double precision.
template <class To, class From>
struct scale_by {
  From const* from;
  To* to;
  double const* factor;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const x = element_cast<accum<To>>(from[i]);
    if (*factor < 0x1p-126) {
      to[i] = element_cast<To>(static_cast<accum<To>>(*factor * static_cast<double>(x)));
    } else {
      to[i] = element_cast<To>(static_cast<accum<To>>(*factor) * x);
    }
  }
};

/// Adds from[i] to to[i].
template <class To, class From>
struct add {
  From const* from;
  To* to;
  PITH_HD void operator()(std::uint64_t i) const { to[i] = sum(to[i], from[i]); }
  template <class Run>
  PITH_HD void operator()(std::uint64_t i, Run const& run) const {
    auto const x = run.read(from + i);
    auto const old = run.read(to + i);
    run.write(to + i, [&](std::uint32_t lane) { return sum(old[lane], x[lane]); });
  }
  bool are_aligned() const { return is_vector_aligned(from) && is_vector_aligned(to); }

 private:
  using wide = std::conditional_t<sizeof(To) == 2, decltype(accum<To>() + accum<From>()), accum<To>>;
  PITH_HD static To sum(To a, From b) {
    auto const x = element_cast<wide>(a), y = element_cast<wide>(b);
    return saturated_result<To>(x + y, is_finite(x) && is_finite(y));
  }
};

/// Adds from[i] times `factor` to to[i]. `factor` is a power of two, so the product is exact, and a fused multiply-add
/// gives the same sum, unless the product is subnormal.
template <class To, class From>
struct add_scaled {
  From const* from;
  To* to;
  To factor;
  PITH_HD void operator()(std::uint64_t i) const { to[i] += factor * element_cast<To>(from[i]); }
  template <class Run>
  PITH_HD void operator()(std::uint64_t i, Run const& run) const {
    auto const x = run.read(from + i);
    auto const sum = run.read(to + i);
    run.write(to + i, [&](std::uint32_t lane) { return sum[lane] + factor * element_cast<To>(x[lane]); });
  }
  bool are_aligned() const { return is_vector_aligned(from) && is_vector_aligned(to); }
};

/// Sets to[i] to factor (to[i] - from[i]).
template <class In>
struct scale_difference {
  In const* from;
  In* to;
  accum<In> factor;
  PITH_HD void operator()(std::uint64_t i) const {
    to[i] = element_cast<In>(factor * (element_cast<accum<In>>(to[i]) - element_cast<accum<In>>(from[i])));
  }
};

/// Returns x[i]^2 in double precision, as a term of a sum.
template <class In>
struct square_of {
  In const* x;
  PITH_HD double operator()(std::uint64_t i) const {
    auto const v = static_cast<double>(element_cast<accum<In>>(x[i]));
    return v * v;
  }
};

/// Returns (x[i] - y[i])^2 in double precision.
template <class In>
struct square_of_difference {
  In const* x;
  In const* y;
  PITH_HD double operator()(std::uint64_t i) const {
    auto const lost = element_cast<double>(x[i]) - element_cast<double>(y[i]);
    return lost * lost;
  }
};

}}}  // namespace pith::PITH_ABI::detail
