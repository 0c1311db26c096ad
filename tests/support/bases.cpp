// tests/support/bases.cpp — bases that are fitted by the host's compiler alone.
#include "support/bases.hpp"

#include "support/slices.hpp"

pith::pca_basis support::basis_of(std::uint64_t n, std::uint64_t slice, pith::slice_order const& order) {
  auto samples = pith::slice_samples<double>(n, slice, order);
  for (std::size_t t = 0; t < 12; ++t) samples.add(pith::span<double const>(correlated(n, slice, 4, t)));
  return pith::pca_basis::fit(samples, {.components = 6});
}
