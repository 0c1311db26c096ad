// pith/vector_quantize/matrix_product.hpp — the product of slices and a basis in an encoder.
#pragma once

#include <pith/core/executor.hpp>
#include <pith/core/source.hpp>
#include <pith/lowrank/detail/thin_product.hpp>

#include <concepts>
#include <cstddef>

namespace pith { inline namespace PITH_ABI {

/// The sizes of a product: `rows` slices with `columns` elements each, and `rank` components.
using product_shape = detail::thin_shape;

/// Computes Z = S U^T on the executor E. S has one row per slice, with elements of type A. U has one row per component.
/// S, U and Z are row-major. The default is `ordered_product`. Only the encoder uses this product, and the ranks'
/// encoders may round differently. So a product of another library may replace the default, as in
/// `pca(basis, blas_product())`, even if its rounding depends on the machine. The decoder must give equal results on
/// all ranks, so the decoder always multiplies in the same order.
///
///   factor<A>     the type of U's elements: double or A
///   multiply      submits the product to the executor, without allocation and without waiting for a device; any size
///                 may be 0
template <class P, class A, class E>
concept matrix_product = executor<E> && std::copyable<P> &&
    requires(P const& p, E const& exec, product_shape const& size, A const* s, typename P::template factor<A> const* u,
             A* z, workspace_on<E>& ws) {
  { p.template scratch_bytes<A>(size) } -> std::same_as<std::size_t>;
  { p.multiply(exec, size, s, u, z, ws) } -> std::same_as<void>;
};

/// A product whose sums are computed in double precision and in a fixed order. Results are bitwise equal on all
/// executors and with all instruction sets.
///
///   complexity  scratch memory of 8 ceil(columns / 8192) bytes per element of Z
struct ordered_product {
  template <class A>
  using factor = double;

  static constexpr bool is_reproducible = true;

  template <class A>
  std::size_t scratch_bytes(product_shape const& size) const {
    return scratch_for<double>(detail::thin_segments(size) * size.rows * size.rank);
  }
  template <class A, executor E>
  void multiply(E const& exec, product_shape const& size, A const* s, double const* u, A* z,
                workspace_on<E>& ws) const {
    auto const parts = detail::thin_segments(size), n = size.rows * size.rank;
    auto* const partial = ws.template take<double>(parts * n).data;
    auto const body = detail::times_thin<ext::plain_source<A>, A, space_of<E>>{{s}, u, partial, size};
    exec.for_each_block(body.blocks(), body);
    exec.for_each_index(n, detail::add_parts<A, space_of<E>>{partial, z, n, parts});
  }
};

static_assert(matrix_product<ordered_product, float, archetype>);

}}  // namespace pith::PITH_ABI
