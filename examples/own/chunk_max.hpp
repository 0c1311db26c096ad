// examples/own/chunk_max.hpp — a sparsifier that keeps the entry of largest magnitude of each chunk of 64 elements.
#pragma once

#include <pith/sparsify/sparsifier.hpp>

#include <algorithm>

/// A block of 32 chunks.
template <class In, class Source>
struct pick_largest {
  static constexpr std::uint32_t chunk = 64, span = 2048;
  using memory = pith::ext::fast_array<pith::accum<In>, span>;

  Source from;
  std::uint64_t n;
  pith::ext::selected_entries<In> to;

  template <pith::team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const first = block * span;
    auto const count = pith::ext::block_size(n, first, span);
    auto const* const p = from.load(team, first, count, fast.data());
    auto const own = *this;
    team.for_each(static_cast<std::uint32_t>(pith::ext::blocks_for(count, chunk)), [=](std::uint32_t c) {
      auto const size = [=](std::uint32_t i) { return pith::ext::magnitude_bits(p[i]); };
      auto best = c * chunk;
      for (auto i = best + 1; i < count && i < (c + 1) * chunk; ++i) best = size(i) > size(best) ? i : best;
      own.keep(first / chunk + c, first + best, p[best]);
    });
    if constexpr (Source::keeps) from.leave(team, first, count, p);
  }
  PITH_HD void keep(std::uint64_t j, std::uint64_t i, pith::accum<In> value) const {
    to.indices[j] = static_cast<std::uint32_t>(i);
    to.values[j] = pith::element_cast<In>(value);
    if constexpr (Source::keeps) to.old[j] = from.kept(i);
  }
};

class chunk_max : public pith::sparsifier<chunk_max> {
 public:
  std::string name() const { return "chunk_max"; }
  std::uint64_t kept(std::uint64_t n) const { return pith::ext::blocks_for(n, 64); }
  double delta(pith::shape const& dims) const {
    return 1 / static_cast<double>(std::clamp<std::uint64_t>(dims.n, 1, 64));
  }

  template <class In, pith::executor E, class Source>
  void select(pith::context<In, E> const& cx, Source const& from, pith::ext::selected_entries<In> const& to) const {
    auto const body = pick_largest<In, Source>{from, cx.dims.n, to};
    cx.exec.for_each_block(pith::ext::blocks_for(cx.dims.n, body.span), body);
  }
};
static_assert(pith::stage<chunk_max, float, pith::archetype> && pith::contractive<chunk_max>);
