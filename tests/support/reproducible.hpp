// tests/support/reproducible.hpp — the same bytes with every instruction set and in any order of blocks.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/vectors.hpp"

namespace support {

/// Runs blocks from the last to the first, one at a time.
class backward_executor : public pith::seq_executor {
 public:
  using pith::seq_executor::seq_executor;

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    for (auto i = n; i-- > 0;) f(i);
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    for (auto b = blocks; b-- > 0;) pith::detail::run_blocks(level(), body, b, b + 1);
  }
};
static_assert(pith::executor<backward_executor>);

/// The payload, the decoded tensor, and the replicated state after three exchanges with itself.
template <class In>
struct outcome {
  std::vector<std::byte> payload;
  std::vector<In> decoded, mean;
  friend bool operator==(outcome const& a, outcome const& b) {
    return a.payload == b.payload && same_bytes(a.decoded, b.decoded) && same_bytes(a.mean, b.mean);
  }
};

template <class In, class E, class C>
outcome<In> outcome_on(E const& exec, C const& codec, pith::shape const& dims) {
  auto const x = narrow<In>(normal_vector(dims.n, 41));
  auto of = outcome<In>{std::vector<std::byte>(pith::payload_bytes<In>(codec, dims)), x, x};
  auto memory = std::vector<std::byte>(pith::workspace_bytes<In>(exec, codec, dims, 1));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto state = pith::make_state<In>(exec, codec, dims);
  auto const payload = pith::span<std::byte>(of.payload);
  pith::compress<In>(exec, codec, pith::span<In const>(x), payload, state, ws);
  pith::decompress<In>(exec, codec, pith::span<std::byte const>(payload), pith::span<In>(of.decoded), state, ws);
  auto comm = pith::self_communicator();
  for (int step = 0; step < 3; ++step) {
    of.mean = x;
    pith::all_reduce_mean<In>(exec, comm, codec, pith::span<In>(of.mean), state, ws);
  }
  return of;
}

template <class In, class C>
void is_reproducible(C const& codec, pith::shape const& dims) {
  CAPTURE(codec.name());
  auto const expected = outcome_on<In>(pith::seq_executor(pith::isa::baseline), codec, dims);
  for (auto const level : {pith::isa::baseline, pith::isa::avx2, pith::isa::avx512}) {
    if (level > pith::best_isa()) continue;
    CAPTURE(pith::isa_name(level));
    CHECK(outcome_on<In>(pith::seq_executor(level), codec, dims) == expected);
    CHECK(outcome_on<In>(backward_executor(level), codec, dims) == expected);
  }
}

}  // namespace support
