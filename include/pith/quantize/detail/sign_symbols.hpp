// pith/quantize/detail/sign_symbols.hpp — the part of a rule whose symbols are the signs of the elements.
#pragma once

#include <pith/config.hpp>
#include <pith/quantize/quantizer_rule.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The symbol of a negative element is 1, and the symbol of any other element is 0.
struct sign_symbols {
  using engine_facets = ext::facets<ext::sign>;

  static constexpr int bits = 1;
  static constexpr bool draws = false;
  static constexpr bool is_reproducible = true;

  template <class A, class Scale>
  PITH_HD std::uint32_t code(A x, Scale, std::uint16_t) const {
    return x < 0;
  }
};

}}}  // namespace pith::PITH_ABI::detail
