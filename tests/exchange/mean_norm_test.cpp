// tests/exchange/mean_norm_test.cpp — gradients clipped by what all ranks have.
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/mean_norm.hpp>
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/allocations.hpp"
#include "support/vectors.hpp"

using namespace support;

namespace {

enum class how { norm, elements };

/// A rank's gradient, clipped with exactly the memory that it takes.
template <class In, class E, class Comm>
std::vector<In> clipped(E const& exec, Comm comm, how rule, std::vector<In> x) {
  auto memory = std::vector<std::byte>(pith::mean_norm_workspace_bytes(x.size()));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto const before = allocations.load();
  if (rule == how::norm) pith::clip_to_mean_norm<In>(exec, comm, pith::span<In>(x), ws);
  if (rule == how::elements) pith::clamp_to_mean_norm<In>(exec, comm, pith::span<In>(x), ws);
  if (comm.size() == 1) CHECK(allocations.load() == before);
  return x;
}

/// Those of all ranks.
template <class In>
std::vector<std::vector<double>> of_ranks(how rule, std::vector<std::vector<double>> x) {
  pith::run_ranks(static_cast<unsigned>(x.size()), [&](pith::thread_communicator comm) {
    x[comm.rank()] = widen(clipped<In>(pith::seq, comm, rule, narrow<In>(x[comm.rank()])));
  });
  return x;
}

using matrix = std::vector<std::vector<double>>;

}  // namespace

TEST_CASE_TEMPLATE("two rules by hand", In, float, double, pith::half, pith::bfloat16) {
  // A square of 144 on one of four ranks has the mean 36: norms and elements of at most 6.
  auto const unlike = matrix{{8, -8, 4}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  CHECK(of_ranks<In>(how::norm, unlike) == matrix{{4, -4, 2}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}});
  CHECK(of_ranks<In>(how::elements, unlike) == matrix{{6, -6, 4}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}});
  auto const alike = matrix{{3, -4, 0}, {0, 5, 0}, {-5, 0, 0}};
  auto const zeros = matrix{{0, 0}, {0, 0}}, none = matrix{{}, {}};
  for (auto const rule : {how::norm, how::elements}) {
    for (auto const& x : {alike, zeros, none}) CHECK(of_ranks<In>(rule, x) == x);
  }
}

TEST_CASE("doubles whose squares vanish or overflow are clipped") {
  for (double const size : {0x1p-700, 0x1p700}) {
    auto const unlike = matrix{{8 * size, -8 * size, 4 * size}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    CHECK(of_ranks<double>(how::norm, unlike)[0] == std::vector<double>{4 * size, -4 * size, 2 * size});
    CHECK(of_ranks<double>(how::elements, unlike)[0] == std::vector<double>{6 * size, -6 * size, 4 * size});
  }
}

TEST_CASE("a NaN or infinity on one rank leaves the gradients of all ranks unclipped") {
  for (double const odd : {not_a_number, infinity}) {
    for (auto const rule : {how::norm, how::elements}) {
      auto const y = of_ranks<float>(rule, {{odd, 1}, {100, 1}, {0, 0}});
      CHECK(same_bytes(y[0], std::vector<double>{odd, 1}));
      CHECK(y[1] == std::vector<double>{100, 1});
    }
  }
}

TEST_CASE_TEMPLATE("one rank keeps its bits and allocates nothing", In, float, double, pith::half, pith::bfloat16) {
  for (std::uint64_t const n : {0u, 1u, 2u, 1000u, 40'000u}) {
    auto const x = narrow<In>(normal_vector(n, n));
    for (auto const rule : {how::norm, how::elements})
      CHECK(same_bytes(clipped(pith::seq, pith::self_communicator(), rule, x), x));
  }
  auto const lonely = narrow<In>({0, 0.1, 0});
  CHECK(same_bytes(clipped(pith::seq, pith::self_communicator(), how::elements, lonely), lonely));
}

TEST_CASE("ranks end at the norm that an oracle says, and threads have the bits of seq") {
  auto g = matrix();
  double mean = 0;
  for (unsigned r = 0; r < 4; ++r) {
    g.push_back(widen(narrow<float>(normal_vector(50'000, 300 + r))));
    for (auto& v : g[r]) v *= 1 << r;
    mean += square(g[r]) / 4;
  }
  auto const y = of_ranks<float>(how::norm, g);
  for (unsigned r = 0; r < 3; ++r) CHECK(y[r] == g[r]);  // 1, 4 and 16 of 85 / 4
  // The factor and each element are rounded to float; sums of 50,000 in double.
  CHECK(std::abs(std::sqrt(square(y[3]) / mean) - 1) <= 2 * 0x1p-24 + 100'000 * 0x1p-53);
  auto pool = pith::thread_pool(2);
  pith::run_ranks(4, [&](pith::thread_communicator comm) {
    auto const x = clipped(pith::par(pool), comm, how::norm, narrow<float>(g[comm.rank()]));
    CHECK(widen(x) == y[comm.rank()]);
  });
}
