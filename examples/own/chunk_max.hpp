// examples/own/chunk_max.hpp — a sparsifier that keeps the entry of largest magnitude of each chunk of 64 elements.
#pragma once

#include <pith/sparsify/sparsifier.hpp>

/// A block of 32 chunks. Both inner loops are reductions without a branch, so that compilers vectorise them.
template <class In, class Source>
struct pick_largest {
  static constexpr std::uint32_t chunk = 64, items_per_block = 2048;
  using memory = pith::ext::fast_array<pith::accum<In>, items_per_block>;

  Source from;
  std::uint64_t n;
  pith::ext::selected_entries<In> to;

  template <pith::team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const first = block * items_per_block;
    auto const count = pith::ext::block_size(n, first, items_per_block);
    auto const* const p = from.load(team, first, count, fast.data());
    auto const own = *this;
    team.for_each(static_cast<std::uint32_t>(pith::ext::blocks_for(count, chunk)), [=](std::uint32_t c) {
      auto const size = [=](std::uint32_t i) { return pith::ext::magnitude_bits(p[i]); };
      auto const begin = c * chunk, end = begin + pith::ext::block_size(count, begin, chunk);
      auto most = size(begin);
      auto best = end;
      for (auto i = begin; i < end; ++i) most = size(i) > most ? size(i) : most;
      for (auto i = begin; i < end; ++i) {
        auto const found = size(i) == most ? i : end;
        best = found < best ? found : best;
      }
      auto const j = first / chunk + c;
      own.to.indices[j] = static_cast<std::uint32_t>(first + best);
      own.to.values[j] = pith::element_cast<In>(p[best]);
      if constexpr (Source::stores_residual) own.to.old[j] = own.from.old_residual(first + best);
    });
    if constexpr (Source::stores_residual) from.store_input(team, first, count, p);
  }
};

struct chunk_max : pith::sparsifier<chunk_max> {
  using facets = pith::ext::facets<pith::ext::contractive>;

  std::string name() const { return "chunk_max"; }
  std::uint64_t kept(std::uint64_t n) const { return pith::ext::blocks_for(n, 64); }
  double delta(pith::shape const&) const { return 1.0 / 64; }

  template <class In, pith::executor E, class Source>
  void select(pith::context<In, E> const& cx, Source const& from, pith::ext::selected_entries<In> const& to) const {
    auto const body = pick_largest<In, Source>{from, cx.dims.n, to};
    cx.exec.for_each_block(pith::ext::blocks_for(cx.dims.n, body.items_per_block), body);
  }
};
static_assert(pith::stage<chunk_max, float, pith::archetype> && pith::promises_of<chunk_max>.contractive);
