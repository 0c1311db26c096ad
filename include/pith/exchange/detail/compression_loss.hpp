// pith/exchange/detail/compression_loss.hpp — the error of a codec with a new state for one gradient.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/core/buffer.hpp>
#include <pith/exchange/exchange_report.hpp>

#include <cstddef>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Measures |g|^2 and |g - D(C(g))|^2 for a codec with a new state. Allocates memory, and waits for the executor.
template <real In, executor E, class C>
measured_energy loss_of(E const& exec, C const& codec, shape const& dims, tensor_id const& owner,
                        span_on<E, In const> gradient) {
  auto state = make_state<In>(exec, codec, dims, owner);
  auto const scratch = buffer<std::byte, E>(exec, workspace_bytes<In>(exec, codec, dims));
  auto ws = workspace_on<E>(scratch.view());
  auto const payload = buffer<std::byte, E>(exec, payload_bytes<In>(codec, dims));
  auto const decoded = buffer<In, E>(exec, dims.n);
  compress(exec, codec, gradient, payload.view(), state, ws);
  decompress(exec, codec, span_on<E, std::byte const>(payload.view()), decoded.view(), state, ws);
  auto before = std::vector<In>(dims.n), after = before;
  exec.download(before.data(), gradient.data(), dims.n * sizeof(In));
  exec.download(after.data(), decoded.data(), dims.n * sizeof(In));
  auto loss = measured_energy{0, 0};
  for (std::size_t i = 0; i < dims.n; ++i) {
    auto const value = element_cast<double>(before[i]), off = value - element_cast<double>(after[i]);
    loss.all += value * value;
    loss.part += off * off;
  }
  return loss;
}

}}}  // namespace pith::PITH_ABI::detail
