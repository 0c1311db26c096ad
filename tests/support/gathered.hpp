// tests/support/gathered.hpp — the payloads of several ranks, their decoded tensors, and the mean.
#pragma once

#include <pith/codec/any_chain.hpp>
#include <pith/codec/chain.hpp>
#include <pith/codec/rounds.hpp>

#include "support/roundtrip.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

namespace support {

/// The payloads of all ranks, one after another, the mean of the decoded tensors, and the mean of their norms.
template <class In>
struct gathered {
  std::vector<std::byte> bytes;
  std::size_t stride;
  std::vector<In> mean;
  double norm = 0;
};

template <class In, class C>
gathered<In> gather(C const& codec, pith::shape dims, unsigned ranks) {
  using A = pith::accum<In>;
  auto const stride = pith::detail::align_up(pith::payload_bytes<In>(codec, dims), 8);
  auto all = gathered<In>{std::vector<std::byte>(ranks * stride), stride, std::vector<In>(dims.n), 0};
  auto sums = std::vector<A>(dims.n);
  for (unsigned rank = 0; rank < ranks; ++rank) {
    auto t = trial<In, C>(codec, dims, {7, 1, static_cast<std::uint16_t>(rank)});
    auto const payload = t.compress(narrow<In>(normal_vector(dims.n, 40 + rank)));
    std::copy(payload.begin(), payload.end(), all.bytes.begin() + static_cast<std::ptrdiff_t>(rank * stride));
    auto const one = t.decompress(payload);
    for (std::size_t i = 0; i < dims.n; ++i) sums[i] += pith::element_cast<A>(one[i]);
    auto const wide = widen(one);
    all.norm += std::sqrt(std::inner_product(wide.begin(), wide.end(), wide.begin(), 0.0)) / ranks;
  }
  auto const share = A{1} / static_cast<A>(ranks);
  for (std::size_t i = 0; i < dims.n; ++i) all.mean[i] = pith::element_cast<In>(share * sums[i]);
  return all;
}

/// Uses exactly the required workspace.
template <class In, class E, class C>
std::vector<In> mean_of(E const& exec, C const& codec, pith::shape dims, unsigned ranks, gathered<In> const& all) {
  auto state = pith::make_state<In>(exec, codec, dims, {7, 1, 0});
  state.advance(exec);
  auto scratch = std::vector<std::byte>(pith::detail::exchange_scratch_bytes<In>(codec, exec, dims, ranks) +
                                        pith::detail::scratch_alignment);
  auto ws = pith::workspace<>(pith::span<std::byte>(scratch));
  auto x = narrow<In>(std::vector<double>(dims.n, 42));
  pith::detail::absorb<In>(codec, state.context_on(exec, ws, ranks), 0, {pith::span(all.bytes), all.stride},
                           {x.data(), x.size()}, state.replicated(), state.local());
  return x;
}

/// The stages of a chain as type-erased stages.
template <class In, class... S>
pith::any_chain<In, pith::seq_executor> erased(pith::chain<S...> const& codec) {
  using any = pith::any_stage<In, pith::seq_executor>;
  return std::apply([](auto const&... s) { return pith::any_chain<In, pith::seq_executor>({any(s)...}); },
                    codec.stages());
}

}  // namespace support
