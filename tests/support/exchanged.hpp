// tests/support/exchanged.hpp — all bytes of a codec on an executor, when one rank exchanges with itself.
#pragma once

#include <pith/comm/self.hpp>
#include <pith/exchange/all_reduce_mean.hpp>

#include "support/executed.hpp"

namespace support {

/// The received mean of each of three steps, and the final state. `gradient(step)` is the input.
template <class In, pith::executor E, class C, class F>
std::vector<std::byte> exchanged(E const& exec, C const& codec, pith::shape dims, F const& gradient) {
  auto state = pith::make_state<In>(exec, codec, dims, {0x5eed, 3, 0});
  auto const x = pith::buffer<In, E>(exec, dims.n);
  auto const scratch = pith::buffer<std::byte, E>(exec, pith::workspace_bytes<In>(exec, codec, dims, 1));
  auto comm = pith::self_communicator();
  auto comms = pith::make_sub_communicators<In>(comm, codec, dims);
  auto bytes = std::vector<std::byte>();
  auto record = recorder<E>(exec, bytes);
  for (unsigned step = 0; step < 3; ++step) {
    auto const g = gradient(step);
    exec.upload(x.data(), g.data(), x.size_bytes());
    exec.wait();
    auto ws = pith::workspace_on<E>(scratch.view());
    pith::all_reduce_mean<In>(exec, comms, codec, x.view(), state, ws);
    record.visit(x.data(), x.size_bytes());
  }
  state.fields(record);
  return bytes;
}

/// ... of normal numbers.
template <class In, pith::executor E, class C>
std::vector<std::byte> exchanged(E const& exec, C const& codec, pith::shape dims) {
  return exchanged<In>(exec, codec, dims, [&](unsigned step) { return narrow<In>(normal_vector(dims.n, 80 + step)); });
}

}  // namespace support
