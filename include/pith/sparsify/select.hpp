// pith/sparsify/select.hpp — selection of a source's k values of largest magnitude, in the order of indices.
#pragma once

#include <pith/core/detail/last_block.hpp>
#include <pith/sparsify/detail/candidates.hpp>
#include <pith/sparsify/detail/radix_select.hpp>
#include <pith/sparsify/detail/small_select.hpp>

#include <algorithm>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Makes a selection whose memory comes from `take`. The function `take(T{}, n)` either returns memory for n values of
/// T, or only counts the bytes and returns null.
template <class Source, class Take>
selection<Source> selection_on(Source const& from, selection_size const& size, Take const& take) {
  using A = typename selection<Source>::A;
  using key = bits_of<A>;
  auto const spans = size.spans(select_span<A>);
  auto of = selection<Source>{from, size.n, static_cast<std::uint32_t>(size.k), static_cast<std::uint32_t>(size.room),
                              size.spans(select_part<A>)};
  of.state = take(selection_state<key>(), 1);
  of.parts = take(part_note(), std::max(of.blocks, max_pass_blocks));
  of.notes = take(span_note(), size.room == 0 ? 0 : spans);
  auto const old = Source::stores_residual ? size.room : 0;
  of.found = {take(std::uint32_t(), size.room), take(A(), size.room), take(A(), old)};
  of.ordered = {take(std::uint32_t(), size.room), take(A(), size.room), take(A(), old)};
  return of;
}

/// Computes a bound from a sample of the values, collects the values that reach this bound (the candidates), and sorts
/// the candidates by index.
template <executor E, class Source>
void find_candidates(E const& exec, selection<Source> const& of, selection_size const& size, workspace_on<E>& ws) {
  using A = typename selection<Source>::A;
  using sampling = sample_keys<Source>;
  using moving = move_candidates<Source>;
  auto* const sample = ws.template take<bits_of<A>>(size.samples).data;
  auto* const arrived = &of.state->arrived;
  for_each_block_then(exec, blocks_for(size.samples, sampling::items_per_block), sampling{of, sample, size.samples},
                      find_bound<Source>{of, sample, size.samples, size.rank}, arrived);
  constexpr auto each = collected_on<A, space_of<E>>;
  for_each_block_then(exec, size.spans(each), collect_candidates<Source>{of, each}, order_candidates<Source>{of},
                      arrived);
  exec.for_each_block(blocks_for(size.room, moving::items_per_block), moving{of});
}

/// Selects the k values of largest magnitude. Searches only among the candidates if they are complete
/// (selection_state::complete), and among all values otherwise.
template <executor E, class Source, class Out>
void radix_select(E const& exec, selection<Source> const& of, selected_entries<Out> const& to) {
  auto const parts = of.blocks;
  auto* const arrived = &of.state->arrived;
  for (unsigned round = 0; round < digits<typename selection<Source>::key>::rounds; ++round) {
    for_each_block_then(exec, parts, count_digits<Source>{of, round}, fix_digit<Source>{of, round}, arrived);
  }
  for_each_block_then(exec, parts, count_kept<Source>{of}, place_kept<Source>{of}, arrived);
  exec.for_each_block(parts, emit_kept<Source, Out>{of, to});
}

}  // namespace detail

namespace ext {

/// The number of workspace bytes that `select_largest` needs on an executor with the memory space `Space`. By default,
/// the bytes are enough for any executor.
template <class Source, detail::memory_space Space = device_space>
std::size_t select_scratch_bytes(std::uint64_t n, std::uint64_t k) {
  using A = typename detail::selection<Source>::A;
  if (detail::fits_in_block<A, Space>(n, k)) return 0;
  auto const size = detail::selection_size::of(n, k);
  auto bytes = scratch_for<detail::bits_of<A>>(size.samples);
  detail::selection_on(Source(), size, [&bytes]<class T>(T, std::uint64_t count) -> T* {
    bytes += scratch_for<T>(count);
    return nullptr;
  });
  return bytes;
}

/// Selects the k values of largest magnitude among the n values from(0) .. from(n - 1). Writes these values and their
/// indices in ascending order of indices. Ties go to the smaller index. NaN counts as larger than infinity. If the
/// source has residual write-back, each finite from(i) becomes the residual of element i, and `to.old` receives the
/// previous residuals of the selected entries.
///
///   complexity  about one pass if k is small compared with n, else five passes (eight for double); a fixed sequence of
///               kernels; the host does not wait
template <executor E, class Source, class Out>
void select_largest(E const& exec, Source const& from, std::uint64_t n, std::uint64_t k,
                    selected_entries<Out> const& to, workspace_on<E>& ws) {
  using A = typename detail::selection<Source>::A;
  if (k == 0) return;
  if (detail::fits_in_block<A, space_of<E>>(n, k)) {
    auto const body =
        detail::select_in_block<Source, Out>{from, to, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(k)};
    return exec.for_each_block(1, body);
  }
  auto const scope = ws.mark();
  auto const size = detail::selection_size::of(n, k);
  auto of = detail::selection_on(from, size,
                                 [&ws]<class T>(T, std::uint64_t count) { return ws.template take<T>(count).data; });
  if constexpr (!detail::host_executor<E>) {
    of.blocks = size.pass_blocks(detail::select_span<A>);
  }
  exec.fill(of.state, std::byte{}, sizeof(*of.state));
  if (size.samples > 0) detail::find_candidates(exec, of, size, ws);
  detail::radix_select(exec, of, to);
}

}  // namespace ext
}}  // namespace pith::PITH_ABI
