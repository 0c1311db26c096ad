// pith/quantize/scaled_sign.hpp — one bit per element, and the mean magnitude of each bucket.
#pragma once

#include <pith/quantize/detail/sign_symbols.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

struct scaled_sign_rule : sign_symbols {
  using facets = ext::facets<ext::scaled, ext::scale_free>;

  template <class A>
  PITH_HD double measure(A x) const {
    return magnitude(static_cast<double>(x));
  }
  PITH_HD double merge(double a, double b) const { return a + b; }
  template <class A>
  PITH_HD A finish(double sum, std::uint64_t count, A) const {
    return finite_or_nan(static_cast<A>(sum / static_cast<double>(count)));
  }
  template <class A>
  PITH_HD A scaled(A scale, A power) const {
    return scale * power;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A scale) const {
    return bits_as<A>(bits_as<bits_of<A>>(scale) ^ (static_cast<bits_of<A>>(symbol) << (8 * sizeof(A) - 1)));
  }
};

}  // namespace detail

/// Encodes the sign of each element and the mean magnitude of each bucket. Zero counts as positive.
///
///   emits       n symbols of 1 bit; side information: one scale per bucket
///   requires    a bucket size of 0 (the whole tensor, the default) or a multiple of 8
///   on NaN      a bucket decodes to NaN if it contains NaN or infinity, or (double only) if its sum of magnitudes
///               overflows
///   properties  a projection of each bucket on its vector of signs, contractive with delta = 1 / (bucket size). For a
///               given bucket x of n elements, the largest possible delta is |x|_1^2 / (n |x|^2). Use scaled_sign with
///               error feedback
///   reference   Karimireddy, Rebjock, Stich and Jaggi, Error Feedback Fixes SignSGD, ICML 2019
class scaled_sign : public scalar_quantizer<detail::scaled_sign_rule> {
 public:
  using facets = ext::facets<ext::contractive>;

  static constexpr codec_traits traits = {.projection = true, .reproducible = true};

  explicit constexpr scaled_sign(std::uint64_t bucket = 0) : scalar_quantizer({}, bucket, "scaled_sign") {}

  std::string name() const { return bucket() == 0 ? "scaled_sign" : detail::text("scaled_sign(", bucket(), ")"); }
  double delta(shape const& dims) const { return dims.n == 0 ? 1 : 1 / static_cast<double>(bucket_of(dims.n)); }
};

static_assert(stage<scaled_sign, float, archetype>);
static_assert(!promises_of<scaled_sign>.unbiased);

}}  // namespace pith::PITH_ABI
