// tests/support/products.hpp — slices times a basis, with the error bound of sums in any order.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/core/workspace.hpp>
#include <pith/vector_quantize/matrix_product.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/vectors.hpp"

namespace support {

template <class T, class E>
pith::buffer<T, E> moved_to(E const& exec, std::vector<T> const& x) {
  auto there = pith::buffer<T, E>(exec, x.size());
  exec.upload(there.data(), x.data(), there.size_bytes());
  exec.wait();
  return there;
}

/// S U^T by a matrix product on an executor.
template <class A, class E, class Product>
std::vector<A> multiplied(E const& exec, Product const& by, pith::product_shape const& size, std::vector<A> const& s,
                          std::vector<A> const& u) {
  using factor = typename Product::template factor<A>;
  auto const slices = moved_to(exec, s);
  auto const basis = moved_to(exec, std::vector<factor>(u.begin(), u.end()));
  auto z = moved_to(exec, std::vector<A>(size.rows * size.rank, A{7}));
  auto scratch = pith::buffer<std::byte, E>(exec, by.template scratch_bytes<A>(size) + pith::detail::scratch_alignment);
  auto ws = pith::workspace_on<E>(scratch.view());
  by.multiply(exec, size, slices.data(), basis.data(), z.data(), ws);
  auto back = std::vector<A>(z.size());
  exec.download(back.data(), z.data(), z.size_bytes());
  return back;
}

/// A sum of K products in any order has an error of K u / (1 - K u) times the sum of their magnitudes, with u half a
/// unit in the last place of A. The bound also adds the same for the oracle in long double. The library's product
/// splits a product of doubles into four exact ones, whose magnitudes sum to at most (1 + 2^-25)^2 of the original.
template <class A, class E, class Product>
void multiplies(E const& exec, Product const& by, pith::product_shape const& size) {
  auto const s = narrow<A>(normal_vector(size.rows * size.columns, 51));
  auto const u = narrow<A>(normal_vector(size.rank * size.columns, 52));
  auto const z = multiplied<A>(exec, by, size, s, u);
  auto const terms = std::is_same_v<Product, pith::ordered_product> && std::is_same_v<A, double> ? 4.0 : 1.0;
  auto const units = terms * static_cast<double>(size.columns) * (roundoff<A>() + 0x1p-64) * (1 + 0x1p-23);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    long double sum = 0, most = 0;
    for (std::size_t k = 0; k < size.columns; ++k) {
      auto const term = static_cast<long double>(s[i / size.rank * size.columns + k]) *
                        static_cast<long double>(u[i % size.rank * size.columns + k]);
      sum += term;
      most += std::abs(term);
    }
    wrong += !(std::abs(static_cast<long double>(z[i]) - sum) <= static_cast<long double>(units / (1 - units)) * most);
  }
  CAPTURE(size.rows);
  CAPTURE(size.columns);
  CAPTURE(size.rank);
  CHECK(wrong == 0);
}

/// Checks all sizes on an executor.
template <class A, class E, class Product>
void multiplies_all_sizes(E const& exec, Product const& by) {
  for (std::uint64_t const rows : {0u, 1u, 3u, 65u})
    for (std::uint64_t const columns : {1u, 17u, 512u})
      for (std::uint64_t const rank : {1u, 5u, 16u}) multiplies<A>(exec, by, {rows, columns, rank});
}

}  // namespace support
