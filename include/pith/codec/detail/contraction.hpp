// pith/codec/detail/contraction.hpp — the check that a residual cannot grow without bound.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/core/error.hpp>

#include <stdexcept>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// True if a codec contracts for at least some shapes. The concept also holds for every type-erased codec, because its
/// capabilities are known only at run time.
template <class C>
concept may_contract = (promises_of<C>.contractive || promises_of<C>.unbiased || promises_of<C>.absolute || erased<C>);

/// Throws if the codec does not contract for the shape `dims`. The check is at run time, because delta and omega depend
/// on the shape. The error message ends with `or_else`, which names another remedy.
template <class C>
void require_contraction(char const* who, C const& codec, shape const& dims, char const* or_else = "") {
  auto const is = capabilities_of(codec, dims);
  if (dims.n == 0 || is.error_bound || codec.is_lossless(dims)) return;
  auto const delta = is.contraction();
  if (delta && *delta > 0) return;
  throw std::invalid_argument(sentence(who, ": ", codec.name(), " must have delta above 0 at n = ", dims.n, ", got ",
                                       delta ? text(*delta) : "none", ": wrap its unbiased stage in damped(s)",
                                       or_else));
}

}}}  // namespace pith::PITH_ABI::detail
