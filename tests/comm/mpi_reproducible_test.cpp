// tests/comm/mpi_reproducible_test.cpp — sums of MPI ranks in the order of the ranks.
#include <pith/comm/mpi.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>

#include <comm/conformance.hpp>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace {

using reproducible = pith::reproducible_sums<pith::mpi_communicator>;
using reproducible_pairs = pith::reproducible_sums<pith::pairwise<pith::mpi_communicator>>;
static_assert(pith::calls_of<reproducible, pith::seq_executor> == pith::optional_calls::all() &&
              pith::calls_of<reproducible_pairs, pith::seq_executor> == pith::optional_calls::all());

/// Numbers whose sum depends on the order, of a rank.
template <class T>
std::vector<T> uneven(std::size_t n, unsigned rank) {
  auto random = std::mt19937(rank + 1);
  auto x = std::vector<T>(n);
  for (auto& v : x)
    v = pith::element_cast<T>(std::ldexp(static_cast<double>(random()), -static_cast<int>(random() % 48)));
  return x;
}

/// In the order of the ranks, as thread_communicator adds.
template <class T>
std::vector<T> in_order(std::size_t n, unsigned ranks) {
  using A = pith::accum<T>;
  auto total = std::vector<A>(n);
  for (unsigned r = 0; r < ranks; ++r) {
    auto const x = uneven<T>(n, r);
    for (std::size_t i = 0; i < n; ++i) total[i] = r == 0 ? A(x[i]) : total[i] + A(x[i]);
  }
  auto sum = std::vector<T>();
  for (auto const v : total) sum.push_back(pith::element_cast<T>(v));
  return sum;
}

template <class T>
bool same(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace

TEST_CASE("ranks with reproducible sums conform, also where they swap in pairs") {
  auto comm = reproducible(MPI_COMM_WORLD);
  conformance::check(pith::seq, comm);
  auto pairs = reproducible_pairs(MPI_COMM_WORLD);
  conformance::check(pith::seq, pairs);
}

TEST_CASE_TEMPLATE("sums have the bits of the ranks' order, wherever an element lies", T, float, double, pith::half,
                   pith::bfloat16) {
  auto comm = reproducible(MPI_COMM_WORLD);
  for (std::size_t const n : {1u, 3u, 1000u, 100'003u}) {
    auto const expected = in_order<T>(n, comm.size());
    auto x = uneven<T>(n, comm.rank());
    comm.all_reduce(pith::seq, pith::span<T>(x), pith::reduction::sum).wait(pith::seq);
    CHECK(same(x, expected));
    auto y = uneven<T>(n, comm.rank());
    comm.all_reduce(pith::par(), pith::span<T>(y), pith::reduction::sum).wait(pith::par());
    CHECK(same(y, expected));
  }
}

TEST_CASE("sums that are under way together keep their memory apart") {
  auto comm = reproducible(MPI_COMM_WORLD);
  auto const expected = in_order<float>(5000, comm.size());
  for (int step = 0; step < 3; ++step) {
    auto a = uneven<float>(5000, comm.rank()), b = a;
    auto first = comm.all_reduce(pith::seq, pith::span<float>(a), pith::reduction::sum);
    auto second = comm.all_reduce(pith::seq, pith::span<float>(b), pith::reduction::sum);
    second.wait(pith::seq);
    first.wait(pith::seq);
    CHECK(same(a, expected));
    CHECK(same(b, expected));
  }
}
