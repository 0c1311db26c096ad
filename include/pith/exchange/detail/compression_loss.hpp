// pith/exchange/detail/compression_loss.hpp — the error of a codec with a new state for one gradient.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/detail/summation.hpp>
#include <pith/exchange/exchange_report.hpp>

#include <algorithm>
#include <cstddef>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Measures |g|^2 and |g - D(C(g))|^2 for a codec with a new state, in double. Allocates memory, and waits for the
/// executor.
template <real In, executor E, class C>
measured_energy loss_of(E const& exec, C const& codec, shape const& dims, tensor_id const& owner,
                        span_on<E, In const> gradient) {
  auto state = make_state<In>(exec, codec, dims, owner);
  auto const scratch = buffer<std::byte, E>(
      exec, std::max(workspace_bytes<In>(exec, codec, dims), reduce_scratch_bytes<double>(dims.n) + scratch_alignment));
  auto ws = workspace_on<E>(scratch.view());
  auto const payload = buffer<std::byte, E>(exec, payload_bytes<In>(codec, dims));
  auto const decoded = buffer<In, E>(exec, dims.n);
  auto const sums = buffer<double, E>(exec, 2);
  compress(exec, codec, gradient, payload.view(), state, ws);
  decompress(exec, codec, span_on<E, std::byte const>(payload.view()), decoded.view(), state, ws);
  reduce_into(exec, sums.data(), dims.n, square_of<In>{gradient.data()}, plus(), 0.0, ws);
  reduce_into(exec, sums.data() + 1, dims.n, square_of_difference<In>{gradient.data(), decoded.data()}, plus(), 0.0,
              ws);
  double found[2];
  exec.download(found, sums.data(), sizeof found);
  return {found[0], found[1]};
}

}}}  // namespace pith::PITH_ABI::detail
