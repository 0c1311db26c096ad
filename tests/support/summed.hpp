// tests/support/summed.hpp — the decoded mean of the payloads of several ranks, on an executor.
#pragma once

#include <pith/codec/compress.hpp>

#include "support/vectors.hpp"

#include <cstddef>
#include <vector>

namespace support {

/// The mean of three ranks that all send this rank's payload of normal numbers.
template <class In, pith::executor E, class C>
std::vector<double> summed(E const& exec, C const& codec, pith::shape dims) {
  constexpr unsigned ranks = 3;
  auto state = pith::make_state<In>(exec, codec, dims, {0x5eed, 3, 0});
  auto const g = narrow<In>(normal_vector(dims.n, 79));
  auto const size = pith::payload_bytes<In>(codec, dims), stride = pith::detail::align_up(size, 8);
  auto const x = pith::buffer<In, E>(exec, dims.n);
  auto const bytes = pith::buffer<std::byte, E>(exec, ranks * stride);
  auto const scratch = pith::buffer<std::byte, E>(exec, pith::workspace_bytes<In>(exec, codec, dims, ranks));
  auto ws = pith::workspace_on<E>(scratch.view());
  exec.upload(x.data(), g.data(), x.size_bytes());
  pith::compress(exec, codec, pith::span_on<E, In const>(x.view()), bytes.view().first(size), state, ws);
  for (unsigned r = 1; r < ranks; ++r) exec.copy(bytes.data() + r * stride, bytes.data(), size);
  pith::detail::absorb<In>(codec, state.context_on(exec, ws, ranks), 0, {bytes.view(), stride}, {x.data(), dims.n},
                           state.replicated(), state.local());
  auto mean = std::vector<In>(dims.n);
  exec.download(mean.data(), x.data(), x.size_bytes());
  return widen(mean);
}

}  // namespace support
