// tests/sparsify/random_blocks_test.cpp — runs of neighbours that all ranks draw alike.
#include <pith/sparsify/random_blocks.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <stdexcept>

#include "support/conform.hpp"
#include "support/reversed.hpp"

using namespace support;
using pith::random_blocks;
using unbiased_blocks = random_blocks<pith::scaling::unbiased>;

namespace {

/// 1, 2, 3, ... so that a value identifies its index.
std::vector<float> counted(std::size_t n) {
  auto x = std::vector<float>(n);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

}  // namespace

TEST_CASE("random_blocks takes any input of any size and type") {
  conforms(random_blocks(0.1, 8), 64);
  conforms(random_blocks(1, 1), 8);
  conforms(random_blocks(1e-9));
  conforms(unbiased_blocks(0.1, 24));
}

TEST_CASE("one block from each stratum and the elements after the last whole block are kept") {
  for (std::size_t const n : {1u, 7u, 8u, 9u, 100u, 5000u, 50'003u}) {
    for (std::uint32_t const block : {1u, 7u, 64u, 2048u}) {
      for (double const density : {0.01, 0.4, 1.0}) {
        CAPTURE(n);
        CAPTURE(block);
        CAPTURE(density);
        auto const codec = random_blocks(density, block);
        auto const x = counted(n);
        auto const y = trial<float, random_blocks<>>(codec, {n}).roundtrip(x);
        auto const m = n / block, k = (codec.kept(n) - n % block) / block;
        for (std::size_t j = 0; j < k; ++j) {
          std::size_t kept = 0;
          for (auto b = j * m / k; b < (j + 1) * m / k; ++b) {
            auto const from = static_cast<std::ptrdiff_t>(b * block), to = from + block;
            auto const is_kept = y[b * block] != 0;
            kept += is_kept;
            CHECK((is_kept ? std::equal(x.begin() + from, x.begin() + to, y.begin() + from)
                           : std::all_of(y.begin() + from, y.begin() + to, [](float v) { return v == 0; })));
          }
          CHECK(kept == 1);
        }
        CHECK(std::equal(x.begin() + static_cast<std::ptrdiff_t>(m * block), x.end(),
                         y.begin() + static_cast<std::ptrdiff_t>(m * block)));
      }
    }
  }
}

TEST_CASE("blocks of work in another order give the same bytes") {
  auto const exec = reversed();
  auto const x = narrow<float>(normal_vector(50'003, 5));
  auto const dims = pith::shape{x.size()};
  auto const codec = random_blocks(0.3, 24);
  auto state = pith::make_state<float>(exec, codec, dims, {0x5eed, 1, 0});
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(exec, codec, dims));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, dims));
  pith::compress(exec, codec, pith::span<float const>(x), pith::span<std::byte>(payload), state, ws);
  CHECK(payload == trial<float, random_blocks<>>(codec, dims).compress(x));
}

TEST_CASE("all ranks draw alike and steps do not") {
  auto const x = counted(1000);
  auto a = trial<float, random_blocks<>>(random_blocks(0.1, 8), {1000}, {1, 2, 0});
  auto b = trial<float, random_blocks<>>(random_blocks(0.1, 8), {1000}, {1, 2, 7});
  auto const first = a.roundtrip(x);
  CHECK(first == b.roundtrip(x));
  CHECK(first != a.roundtrip(x));
}

TEST_CASE_TEMPLATE("unbiased runs are multiplied by the runs of their stratum", In, float, double, pith::half,
                   pith::bfloat16) {
  auto t = trial<In, unbiased_blocks>(unbiased_blocks(0.4, 2), {11});  // runs 0, 1 and 2, 3, 4, and one element
  auto const y = widen(t.roundtrip(std::vector<In>(11, pith::element_cast<In>(-2))));
  CHECK(std::accumulate(y.begin(), y.begin() + 4, 0.0) == 2 * 2 * -2);
  CHECK(std::accumulate(y.begin() + 4, y.begin() + 10, 0.0) == 2 * 3 * -2);
  CHECK(y[10] == -2);
}

TEST_CASE("kept(), delta(), omega() and name() follow from the parameters, and invalid arguments are refused") {
  CHECK(random_blocks(0.1).kept(10'000) == 15 * 64 + 16);
  CHECK(random_blocks(0.1).kept(63) == 63);
  CHECK(random_blocks(0.1).kept(0) == 0);
  CHECK(random_blocks(0.3, 8).delta({83}) == 0.25);
  CHECK(unbiased_blocks(0.3, 8).omega({83}) == 3);
  CHECK(random_blocks(0.3, 8).delta({7}) == 1);
  CHECK(random_blocks(0.1).name() == "random_blocks(0.1,64)");
  CHECK(unbiased_blocks(0.1, 8).name() == "random_blocks(0.1,8,unbiased)");
  CHECK(random_blocks(0.1, 8).at(0.5).name() == "random_blocks(0.5,8)");
  CHECK_THROWS_WITH_AS(random_blocks(0), "pith::random_blocks: density must be in (0, 1], got 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(random_blocks(0.1, 0), "pith::random_blocks: block must be in [1, 2048], got 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(random_blocks(0.1, 2049), "pith::random_blocks: block must be in [1, 2048], got 2049",
                       std::invalid_argument);
}
