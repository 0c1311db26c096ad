// pith/comparison/inceptionn.hpp — 0, 8, 16 or 32 bits per element, depending on the element's magnitude.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/comparison/detail/for_comparison.hpp>
#include <pith/sparsify/detail/density.hpp>

#include <cstring>
#include <limits>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// The unit in which 7 bits represent |x| in [2^-10, 2^-5). The unit of `repaired` is 2^-12. The unit of `reference` is
/// 2^-6, as in GRACE, so that the 7 bits contain 0 or 1 units.
enum class byte_field : std::uint8_t { reference, repaired };

namespace detail {

/// The code of an element. The element's tag determines the size of the code. The code occupies the lowest `bytes(tag)`
/// bytes of a word.
struct inceptionn_word {
  byte_field field;

  static constexpr std::uint32_t bytes(std::uint32_t tag) { return tag == 3 ? 4 : tag; }

  /// Returns the tag of x: 3 if 1 <= |x| or x is NaN, else 2 if 2^-5 <= |x|, else 1 if 2^-10 <= |x|, else 0.
  static std::uint32_t tag(float x) {
    auto const exponent = magnitude_bits(x) >> 23;
    return exponent >= 127 ? 3 : exponent >= 122 ? 2 : exponent >= 117 ? 1 : 0;
  }

  std::uint32_t encode(float x, std::uint32_t tag) const {
    if (tag == 0) return 0;
    if (tag == 3) return bits_as<std::uint32_t>(x);
    auto const units = static_cast<std::uint32_t>(magnitude(x) / unit(tag));
    return static_cast<std::uint32_t>(sign_bit(x)) << (8 * tag - 1) | units;
  }
  float decode(std::uint32_t word, std::uint32_t tag) const {
    if (tag == 0) return 0;
    if (tag == 3) return bits_as<float>(word);
    auto const sign = 1u << (8 * tag - 1);
    auto const units = static_cast<float>(word & (sign - 1));
    auto const half = field == byte_field::reference && units == 0 ? 0.5f : units;
    return (word & sign) != 0 ? -half * unit(tag) : half * unit(tag);
  }

 private:
  float unit(std::uint32_t tag) const {
    return tag == 2 ? 0x1p-14f : field == byte_field::reference ? 0x1p-6f : 0x1p-12f;
  }
};

}  // namespace detail

/// Encodes an element of magnitude at least 1 in 32 bits, unchanged. Magnitudes in [2^-5, 1) take 16 bits, and
/// magnitudes in [2^-10, 2^-5) take 8 bits. Smaller elements decode to 0. Works only on `seq` and for float.
///
///   emits       the codes of all elements, one after another, of 4, 2, 1 or 0 bytes each, padded with zeros to max(1,
///               floor(capacity 4 n)) bytes; side information: the number of code bytes, then a tag of 2 bits per
///               element
///   requires    0 < capacity <= 1 (std::invalid_argument), n < 2^30
///   on NaN      NaN and infinity are kept; elements beyond the capacity decode to 0
///   properties  variable rate; an absolute error bound if capacity = 1: error_bound = 2^-6, or 2^-10 with
///               byte_field::repaired. For a smaller capacity, error_bound is infinity
///   reference   Li et al., A Network-Centric Hardware/Algorithm Co-Design to Accelerate Distributed Training of Deep
///               Neural Networks, MICRO 2018, with the ranges of GRACE. GRACE states a bound of 2e-10 in place of
///               2^-10. GRACE's 8-bit field decodes values below 2^-6 to 2^-7, as `byte_field::reference` does
class inceptionn : public codec_base {
 public:
  using facets = ext::facets<ext::bounded>;

  template <class In>
  using output = packed<8>;

  static constexpr codec_traits traits = {.reproducible = true, .rates = rate_form::variable};

  explicit inceptionn(byte_field field = byte_field::reference, double capacity = 1)
      : word_{field}, capacity_("inceptionn", capacity, "capacity"), is_full_(capacity == 1) {}

  std::string name() const {
    auto const field = word_.field == byte_field::reference ? "reference" : "repaired";
    if (is_full_) return detail::text("inceptionn(", field, ")");
    return detail::text("inceptionn(", field, ",", capacity_.text(), ")");
  }

  double error_bound(shape const&) const {
    if (!is_full_) return std::numeric_limits<double>::infinity();
    return word_.field == byte_field::reference ? 0x1p-6 : 0x1p-10;
  }

  shape output_shape(shape const& dims) const { return {capacity_.of(4 * dims.n)}; }
  template <class In>
  std::size_t side_bytes(shape const& dims) const {
    return sizeof(std::uint32_t) + value_bytes<packed<2>>(dims.n);
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, packed<8>> y) const {
    detail::for_comparison<In, E>();
    cx.exec.fill(y.values.data, std::byte{}, y.values.capacity);
    cx.exec.fill(y.side.data(), std::byte{}, y.side.size());
    auto* const tags = side_as<std::uint8_t>(y.side.subspan(sizeof(std::uint32_t)));
    std::uint64_t used = 0;
    for (std::uint64_t i = 0; i < cx.dims.n; ++i) {
      auto const tag = word_.tag(x.data[i]), bytes = word_.bytes(tag);
      if (used + bytes > y.values.capacity) continue;
      auto const word = word_.encode(x.data[i], tag);
      std::memcpy(y.values.data + used, &word, bytes);
      tags[i / 4] = static_cast<std::uint8_t>(tags[i / 4] | tag << 2 * (i % 4));
      used += bytes;
    }
    *y.values.count = static_cast<std::uint32_t>(used);
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, packed<8> const> y, values_on<E, In> x) const {
    detail::for_comparison<In, E>();
    auto const* const tags = side_as<std::uint8_t>(y.side.subspan(sizeof(std::uint32_t)));
    std::uint64_t used = 0;
    for (std::uint64_t i = 0; i < cx.dims.n; ++i) {
      auto const said = static_cast<std::uint32_t>(tags[i / 4]) >> 2 * (i % 4) & 3u;
      auto const tag = used + word_.bytes(said) > *y.values.count ? 0 : said;
      std::uint32_t word = 0;
      std::memcpy(&word, y.values.data + used, word_.bytes(tag));
      used += word_.bytes(tag);
      x.data[i] = word_.decode(word, tag);
    }
  }

 private:
  detail::inceptionn_word word_;
  detail::density capacity_;
  bool is_full_;
};

static_assert(stage<inceptionn, float, archetype> && promises_of<inceptionn>.absolute);
static_assert(!promises_of<inceptionn>.contractive && reproducible<inceptionn>);

}}  // namespace pith::PITH_ABI
