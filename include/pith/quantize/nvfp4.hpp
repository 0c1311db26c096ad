// pith/quantize/nvfp4.hpp — floats of 4 bits, in blocks of 16 with an E4M3 scale, and one scale per tensor.
#pragma once

#include <pith/core/option.hpp>
#include <pith/quantize/detail/small_float.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// How nvfp4 chooses the scale of a block: so that the largest magnitude is 6 times the scale, or the better of 6 and 4.
enum class nvfp4_scale : std::uint8_t { six, four_or_six };

namespace options {
inline constexpr option<nvfp4_scale::four_or_six> four_or_six = {};
}  // namespace options

namespace detail {

/// A scale in the format E4M3, relative to the scale of the tensor. The byte 0x7f is NaN.
template <class A>
struct e4m3_scale {
  std::uint8_t byte;
};

/// A symbol is a sign bit and a code of E2M1. The unit of a block is the scale of the tensor times the scale of the block.
struct nvfp4_rule : largest_terms {
  using facets = ext::facets<ext::refined, ext::scaled, ext::candidates, ext::tensor>;

  static constexpr int bits = 4;
  static constexpr bool draws = false;
  static constexpr bool is_reproducible = true;
  static constexpr unsigned candidates = 2;
  static constexpr double largest_number = 6, largest_scale = 448;

  bool chooses = false;          ///< whether a block takes the better of its candidates
  void const* tensor = nullptr;  ///< the scale of the tensor, of type A

  /// The scale of the tensor has 16 significant bits, so its product with a block's scale and a number is exact. With
  /// candidates, the largest scale of a block is 256, so that 1.5 times this scale is a number of E4M3. The scale is
  /// rounded up, or down if the largest magnitude would decode to infinity.
  template <class A>
  PITH_HD A tensor_scale(double largest, A) const {
    auto const most = largest_number * (chooses ? 256 : largest_scale);
    if (!(largest > 0)) return 1;
    auto const scale = round_up<16, A>(largest / most);
    constexpr auto step = bits_of<A>{1} << (sizeof(A) == 8 ? 53 - 16 : 24 - 16);
    return is_finite(scale * static_cast<A>(most)) ? scale : bits_as<A>(bits_as<bits_of<A>>(scale) - step);
  }
  template <class A>
  PITH_HD e4m3_scale<A> finish(double largest, std::uint64_t, A) const {
    if (!is_finite(largest)) return {0x7f};
    return nearest<A>(largest / (largest_number * static_cast<double>(*static_cast<A const*>(tensor))));
  }
  template <class A>
  PITH_HD e4m3_scale<A> candidate(e4m3_scale<A> scale, unsigned c) const {
    return c == 0 || scale.byte == 0x7f ? scale : nearest<A>(1.5 * e4m3().value<double>(scale.byte));
  }
  template <class A>
  PITH_HD A refine(e4m3_scale<A> scale) const {
    return scaled(scale, *static_cast<A const*>(tensor));
  }
  template <class A>
  PITH_HD A scaled(e4m3_scale<A> scale, A power) const {
    return e4m3().value<A>(scale.byte) * power;
  }

  template <class A>
  PITH_HD std::uint32_t code(A x, A unit, std::uint16_t) const {
    auto const size = unit > 0 ? at_most(magnitude(x) / unit, static_cast<A>(largest_number)) : A{0};
    auto const number = e2m1().code(size);
    auto const sign = number > 0 ? static_cast<std::uint32_t>(sign_bit(x)) : 0u;
    return number | sign << (bits - 1);
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A unit) const {
    auto const number = e2m1().value<A>(symbol & 7u) * unit;
    return symbol >> (bits - 1) != 0 ? -number : number;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, e4m3_scale<A> scale) const {
    return value(symbol, refine(scale));
  }

 private:
  template <class A>
  PITH_HD static e4m3_scale<A> nearest(double scale) {
    return {static_cast<std::uint8_t>(e4m3().code(scale < largest_scale ? scale : largest_scale))};
  }
};

}  // namespace detail

/// Rounds each element to the nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6 times the unit of its block of 16 elements, ties
/// to even codes. The unit is the scale t of the tensor times the scale s of the block. Elements above 6 units become 6
/// units, and zeros have the sign bit 0. A and a are the largest finite magnitudes of the tensor and of the block: t = A
/// / (6 * 448), and s = a / (6 t), rounded to the nearest number of E4M3. With options::four_or_six, t = A / (6 * 256),
/// and the block takes s or 1.5 s, whichever has the smaller squared error.
///
///   emits       n symbols of 4 bits (E2M1); side information: t, an accum<In>, then one byte per block (E4M3)
///   requires    for double, four_or_six compares errors as floats; if errors lie outside the range of float, it takes s
///   complexity  two reads of x; one division per element, with four_or_six three
///   on NaN      a block decodes to NaN if it contains NaN or infinity
///   properties  contractive, reproducible. delta assumes that t is at least 2^-100. Use nvfp4 with error feedback, or as
///               the codec of two_shot
///   reference   NVIDIA, Pretraining Large Language Models with NVFP4, 2025; four or six: Cook et al., Four Over Six:
///               More Accurate NVFP4 Quantization with Adaptive Block Scaling, 2025
class nvfp4 : public scalar_quantizer<detail::nvfp4_rule> {
 public:
  using facets = ext::facets<ext::contractive>;

  /// The number of elements per block.
  static constexpr std::uint64_t block = 16;

  explicit constexpr nvfp4(nvfp4_scale choice = nvfp4_scale::six)
      : scalar_quantizer({{}, choice == nvfp4_scale::four_or_six}, block, "nvfp4") {}
  constexpr explicit nvfp4(option<nvfp4_scale::four_or_six>) : nvfp4(nvfp4_scale::four_or_six) {}

  std::string name() const { return rule().chooses ? "nvfp4(four_or_six)" : "nvfp4"; }
  /// In a block, the relative error of an element of at least 1.25 units is at most 1 / 5, and the error of a smaller
  /// element is at most 1 / 4 unit. The largest element is at least 6 / (1 + 1 / 17) units, unless s is
  /// below 2^-6. In blocks with such a small s, the error of an element is at most 2^-6 t.
  double delta(shape const& dims) const {
    if (dims.n == 0) return 1;
    constexpr auto largest = 6 / (1 + 1.0 / 17), relative = 0.2, zeroed = 0.25;
    auto const others = static_cast<double>(std::min(dims.n, block) - 1) * zeroed * zeroed;
    auto const square = largest * largest;
    auto const small = 0x1p-6 * (1 + 0x1p-15) / (6 * (rule().chooses ? 256 : 448));
    return 1 - (relative * relative * square + others) / (square + others) -
           static_cast<double>(dims.n) * small * small;
  }
};

static_assert(stage<nvfp4, float, archetype> && promises_of<nvfp4>.contractive && reproducible<nvfp4>);

}}  // namespace pith::PITH_ABI
