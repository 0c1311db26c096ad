// tests/frozen/mpi_test.cpp — the same means by MPI's ranks, whose sums are added in the order of the ranks.
#include <pith/comm/mpi.hpp>
#include <pith/comm/reproducible_sums.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "frozen/check.hpp"
#include "support/parsed.hpp"

TEST_CASE("ranks of MPI receive the means of the rows, and keep their states") {
  auto comm = pith::reproducible_sums<pith::mpi_communicator>(MPI_COMM_WORLD);
  auto const& numbers = frozen::numbers_of_ranks;
  auto const at = static_cast<std::size_t>(std::find(numbers.begin(), numbers.end(), comm.size()) - numbers.begin());
  REQUIRE(at < numbers.size());
  frozen::for_each_row<float>("small", [&](auto const& l) {
    auto const codec = pith::parse<float>(l.text);
    auto const means = frozen::means_of(l.sizes, [&](auto const& dims) {
      auto each = std::vector<std::uint64_t>(comm.size());
      auto const mine = frozen::exchanged<float>(pith::seq, codec, dims, comm);
      MPI_Allgather(&mine, 1, MPI_UINT64_T, each.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
      return each;
    });
    CHECK(means == l.digests.means[at]);
  });
}
