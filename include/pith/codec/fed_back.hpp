// pith/codec/fed_back.hpp — the feedback state of a tensor, for logs and tests.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/codec/detail/feedback_places.hpp>
#include <pith/codec/detail/saving.hpp>

#include <cstring>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// Waits for the executor, then returns a copy of this rank's feedback state in host memory. For `residual`, the copy
/// has n values. For momentum_correction, the copy has 2 n values: m u, the momentum factor times the velocity, then
/// the residual v. Other policies document their layout. Without feedback, the copy is empty. After a change of codecs,
/// the copy is the residual that the next step adds to the gradient, if there is one. Feedback inside a collective is
/// not part of the copy.
template <class In, class C, executor E>
std::vector<accum<In>> fed_back(E const& exec, C const& codec, codec_state<In, C, E>& state) {
  auto saved = detail::field_saver<E>(exec);
  for (auto const& place : state.feedback(codec, 0)) {
    for (auto const& f : place.fields)
      if (!f.form.is_replicated()) saved.visit(f.data, f.bytes);
  }
  if (saved.bytes.empty()) state.undelivered().fields(saved);
  auto values = std::vector<accum<In>>(saved.bytes.size() / sizeof(accum<In>));
  if (!values.empty()) std::memcpy(values.data(), saved.bytes.data(), values.size() * sizeof(accum<In>));
  return values;
}

}}  // namespace pith::PITH_ABI
