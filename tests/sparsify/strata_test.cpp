// tests/sparsify/strata_test.cpp — the boundaries of strata, and the draws from them.
#include <pith/sparsify/detail/strata.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr std::uint64_t sizes[] = {1, 2, 3, 97, 2049, 65'537, 16'777'259, 2'147'483'648, 4'294'967'291, 4'294'967'295};

}  // namespace

TEST_CASE("strata begin at the quotients that a division gives") {
  for (auto const n : sizes) {
    for (auto const k : sizes) {
      auto const many = std::min<std::uint64_t>(k, 2048);
      auto const of = pith::detail::strata{pith::versioned_draws({}), n, k};
      for (auto const j : {std::uint64_t{0}, k / 7, k - many}) {
        if (k > n || j + many > k) continue;
        auto const start = of.from(j);
        std::uint32_t wrong = 0;
        for (std::uint32_t i = 0; i <= many; ++i) wrong += start(i) == (j + i) * n / k ? 0 : 1;
        CAPTURE(n);
        CAPTURE(k);
        CAPTURE(j);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("each draw is the start of the stratum plus its width times a random 32-bit fraction") {
  std::uint64_t const step = 5;
  auto const of = pith::detail::strata{pith::versioned_draws({.step = &step, .seed = 3}), 1'000'003, 4'321};
  auto to = pith::detail::drawn_strata<64>();
  for (std::uint64_t j = 0; j + 64 <= of.k; j += 61) {
    of.draw(pith::serial_team(), to, j, 64);
    for (std::uint32_t i = 0; i < 64; ++i) {
      auto const first = (j + i) * of.n / of.k, width = (j + i + 1) * of.n / of.k - first;
      CHECK(to.drawn[i] == first + (of.random((j + i) / 4).word[(j + i) % 4] * width >> 32));
    }
  }
}
