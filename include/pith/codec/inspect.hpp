// pith/codec/inspect.hpp — the feedback state of a tensor, for logs and tests.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/codec/detail/fed_back.hpp>
#include <pith/codec/detail/saving.hpp>

#include <cstring>
#include <vector>

namespace pith::inline v0 {

/// This rank's feedback state, copied to the host: n values of `residual`; 2 n values of momentum_correction, v and
/// then m u; other policies document theirs. Empty for a codec without feedback. Waits.
template <class In, class C, executor E>
std::vector<accum<In>> fed_back(E const& exec, C const& codec, codec_state<In, C, E>& state) {
  auto saved = detail::field_saver<E>(exec);
  detail::fed_back_in(codec, state.replicated(), state.local()).local_fields(saved);
  auto values = std::vector<accum<In>>(saved.bytes.size() / sizeof(accum<In>));
  if (!values.empty()) std::memcpy(values.data(), saved.bytes.data(), values.size() * sizeof(accum<In>));
  return values;
}

}  // namespace pith::inline v0
