// pith/lowrank/detail/thin_product.hpp — products of a matrix and thin matrices, computed in double.
#pragma once

#include <pith/core/executor.hpp>
#include <pith/core/source.hpp>
#include <pith/lowrank/detail/device_thin_times_thin.hpp>
#include <pith/lowrank/detail/device_times_thin.hpp>
#include <pith/lowrank/detail/device_transposed_times_thin.hpp>
#include <pith/lowrank/detail/strided_sum.hpp>
#include <pith/lowrank/detail/thin_times_thin.hpp>
#include <pith/lowrank/detail/times_thin.hpp>
#include <pith/lowrank/detail/transposed_times_thin.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Transposes Q: to[c columns + j] = q[j rank + c].
template <class A>
struct by_columns {
  A const* q;
  double* to;
  thin_shape size;
  PITH_HD void operator()(std::uint64_t i) const {
    to[i] = static_cast<double>(q[i % size.columns * size.rank + i / size.columns]);
  }
};

/// Sets to[i] to the sum of partial[t n + i] over t < parts, added in ascending order of t.
template <class A, memory_space Space>
struct add_parts {
  double const* partial;
  A* to;
  std::uint64_t n, parts;
  PITH_HD void operator()(std::uint64_t i) const { to[i] = static_cast<A>(strided_sum<Space>(partial + i, n, parts)); }
};

constexpr std::size_t thin_scratch_bytes(thin_shape const& size) {
  auto const by_columns = scratch_for<double>(size.columns * size.rank);
  auto const p = scratch_for<double>(thin_segments(size) * size.rows * size.rank);
  auto const q = scratch_for<double>(thin_slabs(size) * size.columns * size.rank);
  return std::max(by_columns + p, q);
}

template <executor E, class A>
double* take_by_columns(E const& exec, thin_shape const& size, A const* q, workspace_on<E>& ws) {
  auto* const to = ws.template take<double>(size.columns * size.rank).data;
  exec.for_each_index(size.columns * size.rank, by_columns<A>{q, to, size});
  return to;
}

template <executor E, class Source, class A>
void multiply(E const& exec, thin_shape const& size, Source const& m, A const* q, A* p, workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto const* const columns = take_by_columns(exec, size, q, ws);
  auto const parts = thin_segments(size), n = size.rows * size.rank;
  auto* const partial = ws.template take<double>(parts * n).data;
  auto body = times_thin<Source, A, space_of<E>>{m, columns, partial, size};
  if constexpr (std::same_as<space_of<E>, device_space>) {
    body.p = parts == 1 ? p : nullptr;  // saves a launch
    exec.for_each_block(body.blocks(), body);
    if (parts == 1) return;
  } else {
    exec.for_each_block(body.blocks(), body);
  }
  exec.for_each_index(n, add_parts<A, space_of<E>>{partial, p, n, parts});
}

template <executor E, class Source, class A>
void multiply_transposed(E const& exec, thin_shape const& size, Source const& m, A const* p, A* q,
                         workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto const parts = thin_slabs(size), n = size.columns * size.rank;
  auto* const partial = ws.template take<double>(parts * n).data;
  auto const body = transposed_times_thin<Source, A, space_of<E>>{m, p, partial, size};
  exec.for_each_block(body.blocks(), body);
  exec.for_each_index(n, add_parts<A, space_of<E>>{partial, q, n, parts});
}

template <executor E, class A, class Sink>
void expand(E const& exec, thin_shape const& size, A const* p, A const* q, Sink const& m, workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto const body = thin_times_thin<Sink, A, space_of<E>>{p, take_by_columns(exec, size, q, ws), m, size};
  exec.for_each_block(body.blocks(), body);
}

}}}  // namespace pith::PITH_ABI::detail
