// pith/quantize/trits.hpp — ternary symbols packed five to a byte.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/error.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// Packs five symbols from {-1, 0, 1} into one byte, as digits in base 3. The first symbol is the least significant
/// digit. Digit 2 stands for -1.
struct packed_trits {};

template <>
struct storage<packed_trits> {
  using word = std::uint8_t;
  static constexpr std::uint64_t words(std::uint64_t n) { return n / 5 + (n % 5 != 0); }
};

namespace detail {

/// The number of symbols in a group. Twenty symbols need five bytes at two bits per symbol, but only four as trits.
inline constexpr std::uint64_t trit_group = 20;

/// The symbol -1 is stored as 3 in two bits, and as digit 2 in base 3.
PITH_HD constexpr std::uint32_t trit_of(std::uint32_t symbol) { return symbol - (symbol >> 1); }
PITH_HD constexpr std::uint32_t symbol_of(std::uint32_t trit) { return trit + (trit >> 1); }

struct pack_trits {
  std::uint8_t const* symbols;
  std::uint8_t* trits;
  std::uint64_t n;

  PITH_HD void operator()(std::uint64_t g) const {
    auto const count = block_size(n, g * trit_group, trit_group);
    std::uint64_t all = 0;
    __builtin_memcpy(&all, symbols + g * 5, (count + 3) / 4);
    for (std::uint64_t w = 0; 5 * w < count; ++w, all >>= 10) {
      std::uint32_t digits = 0;
      for (int at = 8; at >= 0; at -= 2) digits = 3 * digits + trit_of(all >> at & 3u);
      trits[g * 4 + w] = static_cast<std::uint8_t>(digits);
    }
  }
};

/// Unpacks the symbols of group g. If a byte has a sixth digit in base 3, that digit is ignored.
struct unpack_trits {
  std::uint8_t const* trits;
  std::uint8_t* symbols;
  std::uint64_t n;

  PITH_HD void operator()(std::uint64_t g) const {
    auto const count = block_size(n, g * trit_group, trit_group);
    std::uint64_t all = 0;
    for (std::uint64_t w = 0; 5 * w < count; ++w) {
      std::uint32_t digits = trits[g * 4 + w];
      for (unsigned at = 0; at < 10; at += 2, digits /= 3) {
        all |= std::uint64_t{symbol_of(digits % 3)} << (10 * w + at);
      }
    }
    __builtin_memcpy(symbols + g * 5, &all, (count + 3) / 4);
  }
};

}  // namespace detail

/// Encodes like `S`, then packs the ternary symbols. Packing reduces a symbol from 2 bits to 1.6 bits.
///
///   emits       n symbols in packed_trits; the same side information as S
///   requires    a ternary S: terngrad, qsgd<2>
///   complexity  one pass over the symbols, with scratch memory for the symbols in addition to the scratch of S. The
///               summation over ranks and error feedback take separate passes
///   properties  as S
template <class S>
class trits : public codec_base {
  static_assert(traits_of<S>.ternary, "pith: trits(s) needs a stage s of symbols -1, 0 and 1: terngrad or qsgd<2>");

 public:
  using facets = ext::computed;

  template <class In>
  using output = packed_trits;

  static constexpr codec_traits traits = {.reproducible = reproducible<S>};

  explicit constexpr trits(S stage) : stage_(std::move(stage)) { explain_facets<S>(); }

  std::string name() const { return detail::text("trits(", stage_.name(), ")"); }
  double omega(shape const& dims) const requires(promises_of<S>.unbiased) { return stage_.omega(dims); }

  template <class In>
  constexpr std::size_t side_bytes(shape const& dims) const {
    return stage_.template side_bytes<In>(dims);
  }
  template <class In, executor E>
  constexpr std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return scratch_for<std::uint8_t>(value_bytes<symbols>(dims.n)) + detail::scratch_bytes<In>(stage_, exec, dims);
  }

  template <real In, executor E>
    requires stage<S, In, E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, packed_trits> y) const {
    auto* const two_bits = cx.ws.template take<std::uint8_t>(value_bytes<symbols>(cx.dims.n)).data;
    auto const inner = encoded_on<E, symbols>{{two_bits, cx.dims.n, nullptr}, y.side};
    detail::encode<In>(stage_, cx, x, inner, detail::nothing, detail::nothing);
    cx.exec.for_each_index(detail::blocks_for(cx.dims.n, detail::trit_group),
                           detail::pack_trits{two_bits, y.values.data, cx.dims.n});
  }
  template <real In, executor E>
    requires stage<S, In, E>
  void decode(context<In, E> const& cx, encoded_on<E, packed_trits const> y, values_on<E, In> x) const {
    auto* const two_bits = cx.ws.template take<std::uint8_t>(value_bytes<symbols>(cx.dims.n)).data;
    cx.exec.for_each_index(detail::blocks_for(cx.dims.n, detail::trit_group),
                           detail::unpack_trits{y.values.data, two_bits, cx.dims.n});
    auto const inner = encoded_on<E, symbols const>{{two_bits, cx.dims.n, nullptr}, y.side};
    detail::decode<In>(stage_, cx, inner, x, detail::nothing);
  }

 private:
  using symbols = packed<2>;

  S stage_;
};

}}  // namespace pith::PITH_ABI
