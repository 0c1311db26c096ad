// tests/vector_quantize/blas_product_test.cpp — slices times a basis by a BLAS, beside our own product.
#include <pith/comm/threads.hpp>
#include <pith/control/gradiveq.hpp>
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
#include <pith/vector_quantize/blas_product.hpp>
#include <pith/vector_quantize/pca.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "support/group.hpp"
#include "support/products.hpp"
#include "support/slices.hpp"

using namespace support;
using pith::blas_product;
using pith::pca;
using pith::pca_basis;

static_assert(pith::reproducible<pca<>> && !pith::reproducible<pca<blas_product>>);
static_assert(pith::stage<pca<blas_product>, float, pith::seq_executor>);

TEST_CASE_TEMPLATE("both products keep the bound of sums in any order", A, float, double) {
  multiplies_all_sizes<A>(pith::seq, blas_product());
  multiplies_all_sizes<A>(pith::seq, pith::ordered_product());
  multiplies_all_sizes<A>(pith::par(), blas_product());
}

TEST_CASE("slices that a BLAS cannot count are refused before it is called") {
  CHECK_THROWS_WITH_AS(blas_product().scratch_bytes<float>({1, std::uint64_t{1} << 31, 1}),
                       "pith::blas_product: slices must have fewer than 2^31 elements, got 2147483648",
                       std::invalid_argument);
}

namespace {

constexpr auto kernel = pith::conv_shape{6, 5, 3, 3};

std::shared_ptr<pca_basis const> basis_of(std::uint64_t slice) {
  auto samples = pith::slice_samples<double>(270, slice, kernel.order());
  for (std::size_t t = 0; t < 12; ++t) samples.add(pith::span<double const>(correlated(270, slice, 4, t)));
  return std::make_shared<pca_basis const>(pca_basis::fit(samples, {.components = 7}));
}

double largest(std::vector<double> const& x) {
  double most = 0;
  for (auto const v : x) most = std::max(most, std::abs(v));
  return most;
}

}  // namespace

TEST_CASE_TEMPLATE("whichever product a rank encodes with, all receive the same bits, near those of our own", In, float,
                   double, pith::half, pith::bfloat16) {
  for (std::uint64_t const slice : {30u, 17u}) {
    auto const basis = basis_of(slice);
    auto x = std::vector<std::vector<In>>();
    for (unsigned r = 0; r < 3; ++r) x.push_back(narrow<In>(correlated(270, slice, 4, 100 + r)));
    auto const ours = group<In, pca<>>(pca(basis), {270}, 3).all_reduce(x);
    auto const theirs = group<In, pca<blas_product>>(pca(basis, blas_product()), {270}, 3).all_reduce(x);
    for (auto const& mean : theirs) CHECK(same_bytes(mean, theirs[0]));
    // A component is a sum of at most 30 products of |x| below 16 and a unit vector, and U adds 7 of them up; then both
    // means are rounded to In.
    auto const bound =
        2 * 30 * std::sqrt(30.0) * 16 * std::sqrt(7.0) * roundoff<pith::accum<In>>() + 32 * roundoff<In>();
    CHECK(largest(minus(widen(ours[0]), widen(theirs[0]))) <= bound);
    CHECK(pca(basis).name() == pca(basis, blas_product()).name());
  }
}

TEST_CASE("a schedule's compressed phase takes the product, and all ranks receive the same means") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"conv", {270}}},
                                               pith::any_codec<float, pith::seq_executor>(pith::identity()));
    auto schedule = pith::gradiveq(pith::seq, comm, exchange, {{0, kernel, 30}},
                                   {.warm_up = 1, .samples = 6, .compressed = 4, .first_losses = 3},
                                   [](auto basis) { return pca(basis, blas_product()); });
    for (unsigned t = 0; t < 9; ++t) {
      auto g = narrow<float>(correlated(270, 30, 4, 10 * t + comm.rank()));
      schedule.all_reduce_mean(g);
      auto const sum = [&](float v) {
        auto total = std::vector<float>{v};
        comm.all_reduce(pith::seq, pith::span<float>(total), pith::reduction::sum).wait(pith::seq);
        return total[0];
      };
      CHECK(sum(g[17]) == 2 * g[17]);
    }
    CHECK(schedule.phase() == pith::gradiveq_phase::compressed);
  });
}
