// tests/support/garbage.hpp — exchanges that receive arbitrary bytes write only inside their tensor.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace support {

/// One round of one rank, in which all received bytes are equal.
template <class C>
void absorb_garbage(C const& codec, auto& state, pith::value_view<float> x, unsigned ranks, unsigned round,
                    std::byte garbage) {
  auto const dims = pith::shape{x.capacity};
  auto const moves = pith::detail::transfer_of<float>(codec, round, dims, ranks);
  auto const arrivals = std::max(pith::detail::received_pieces(moves.how, moves.among.ranks(ranks)), 1u);
  auto const piece = pith::detail::padded_bytes(moves);
  auto const bytes = std::vector<std::byte>(arrivals * piece, garbage);
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, dims, ranks));
  auto ws = pith::workspace<>(pith::span<std::byte>(scratch));
  pith::detail::absorb<float>(codec, state.context_on(pith::seq, ws, ranks).with(dims), round,
                              pith::received<>{pith::span<std::byte const>(bytes), piece}, x, state.replicated(),
                              state.local());
}

/// Each rank absorbs garbage of all kinds, round after round. Then calls `look(state)`.
template <class C, class F>
void check_stays_within(C const& codec, std::size_t n, unsigned ranks, F const& look) {
  for (unsigned rank = 0; rank < ranks; ++rank) {
    auto state = pith::make_state<float>(pith::seq, codec, {n}, {7, 1, static_cast<std::uint16_t>(rank)});
    for (int garbage = 0; garbage < 256; garbage += 17) {
      auto x = std::vector<float>(n + 2, 42);  // a sanitizer reports accesses further away
      for (unsigned round = 0; round < codec.rounds({n}, ranks); ++round)
        absorb_garbage(codec, state, {x.data() + 1, n}, ranks, round, static_cast<std::byte>(garbage));
      CHECK(x.front() == 42);
      CHECK(x.back() == 42);
      look(state);
    }
  }
}
template <class C>
void check_stays_within(C const& codec, std::size_t n, unsigned ranks) {
  check_stays_within(codec, n, ranks, [](auto&) {});
}

}  // namespace support
