// pith/sparsify/chunk_top_k.hpp — sparsification to the k entries of largest magnitude of each chunk.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/error.hpp>
#include <pith/sparsify/detail/density.hpp>
#include <pith/sparsify/detail/small_select.hpp>
#include <pith/sparsify/elias_fano.hpp>
#include <pith/sparsify/sparsifier.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Selects the entries of one chunk. The last chunk may be short, and has `rest` entries.
template <class Source, class Out>
struct select_in_chunk {
  using one = select_in_block<Source, Out>;
  using memory = typename one::memory;

  Source from;
  selected_entries<Out> to;
  std::uint64_t n;
  std::uint32_t chunk, k, rest;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t c) const {
    auto const first = c * chunk;
    auto const count = block_size(n, first, chunk);
    auto out = to;
    out.indices += c * k, out.values += c * k;
    if constexpr (Source::stores_residual) out.old += c * k;
    one{from.tail(first), out, count, count == chunk ? k : rest, static_cast<std::uint32_t>(first)}(team, fast, 0);
  }
};

}  // namespace detail

/// Divides a tensor into chunks of `chunk` consecutive elements, and keeps the k entries of largest magnitude of each
/// chunk. A last chunk of r < chunk elements keeps max(1, round(r k / chunk)) entries. The other elements become zero.
///
///   emits       k values of In per chunk, in ascending order of indices; side information: the indices, in the format
///               of elias_fano. For k = 64 and chunk = 4096, an index takes 8 bits
///   requires    1 <= k <= chunk <= 8192 (std::invalid_argument), n < 2^32
///   complexity  one pass over x, in which a block selects the entries of a chunk in block-local memory; no scratch
///               memory for the selection
///   on NaN      NaN counts as larger than infinity, and infinity as larger than finite numbers. So NaN and infinity
///               reach the other ranks
///   properties  a projection, contractive with delta = k / chunk, or that of a short last chunk if it is smaller. Ties
///               go to the smaller index. `at(density)` keeps k = max(1, floor(density chunk)) entries per chunk
///   reference   Sarfi et al., Communication Efficient LLM Pre-training with SparseLoCo, 2025, but with runs of
///               neighbouring elements instead of square tiles
class chunk_top_k : public sparsifier<chunk_top_k, elias_fano> {
 public:
  using facets = ext::facets<ext::contractive, ext::rate>;

  static constexpr std::uint32_t max_chunk = 8192;

  explicit chunk_top_k(std::uint32_t k, std::uint32_t chunk = 4096) : k_(k), chunk_(chunk) {
    detail::require(1 <= chunk && chunk <= max_chunk, "chunk_top_k: chunk must be in [1, ", max_chunk, "], got ",
                    chunk);
    detail::require(1 <= k && k <= chunk, "chunk_top_k: k must be in [1, ", chunk, "], the size of a chunk, got ", k);
  }

  std::string name() const { return detail::text("chunk_top_k(", k_, ",", chunk_, ")"); }
  chunk_top_k at(double density) const {
    return chunk_top_k(static_cast<std::uint32_t>(detail::density("chunk_top_k", density).of(chunk_)), chunk_);
  }
  std::uint64_t kept(std::uint64_t n) const { return n / chunk_ * k_ + kept_of_rest(n); }
  double delta(shape const& dims) const {
    auto const rest = dims.n % chunk_;
    auto const of_chunk = dims.n < chunk_ ? 1 : static_cast<double>(k_) / chunk_;
    return rest == 0 ? of_chunk
                     : std::min(of_chunk, static_cast<double>(kept_of_rest(dims.n)) / static_cast<double>(rest));
  }

  template <class In, executor E, class Source>
  void select(context<In, E> const& cx, Source const& from, ext::selected_entries<In> const& to) const {
    auto const n = cx.dims.n;
    auto const body = detail::select_in_chunk<Source, In>{from, to, n, chunk_, k_, kept_of_rest(n)};
    cx.exec.for_each_block(ext::blocks_for(n, chunk_), body);
  }

 private:
  std::uint32_t kept_of_rest(std::uint64_t n) const {
    auto const rest = n % chunk_;
    return rest == 0 ? 0
                     : static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (2 * rest * k_ + chunk_) / (2 * chunk_)));
  }

  std::uint32_t k_, chunk_;
};

static_assert(stage<chunk_top_k, float, archetype>);
static_assert(!promises_of<chunk_top_k>.unbiased && detail::rate_adjustable<chunk_top_k>);

}}  // namespace pith::PITH_ABI
