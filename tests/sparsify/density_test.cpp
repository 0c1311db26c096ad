// tests/sparsify/density_test.cpp — how many entries a density keeps.
#include <pith/sparsify/detail/density.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>

using pith::detail::density;

TEST_CASE("k is the floor of density times n but at least one") {
  CHECK(density("m", 0.01).of(0) == 0);
  CHECK(density("m", 0.01).of(1) == 1);
  CHECK(density("m", 0.01).of(199) == 1);
  CHECK(density("m", 0.01).of(200) == 2);
  CHECK(density("m", 0.01).of(64 * 48) == 30);
  CHECK(density("m", 0.3).of(64 * 48) == 921);
  CHECK(density("m", 1).of(77) == 77);
  CHECK(density("m", 1).of(0xffffffffu) == 0xffffffffu);
}

TEST_CASE("a density outside of 0 to 1 is refused") {
  CHECK_THROWS_WITH_AS(density("m", 0), "pith::m: density must be in (0, 1], got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(density("m", 1.5), "pith::m: density must be in (0, 1], got 1.5", std::invalid_argument);
  CHECK_THROWS_WITH_AS(density("m", -0.1), "pith::m: density must be in (0, 1], got -0.1", std::invalid_argument);
  CHECK_THROWS_AS(density("m", std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
}

TEST_CASE("a tensor of 2 to the 32 is refused") {
  CHECK_THROWS_WITH_AS(density("m", 0.5).of(std::uint64_t{1} << 32),
                       "pith::m: a tensor must have at most 2^32 - 1 elements, got 4294967296: split the tensor",
                       std::invalid_argument);
}

TEST_CASE("the text reads back as the same number") {
  for (double const d : {0.01, 1.0, 0.1, 1.0 / 3, 1e-5, 0.30000000000000004})
    CHECK(std::stod(density("m", d).text()) == d);
  CHECK(density("m", 0.01).text() == "0.01");
  CHECK(density("m", 1).text() == "1");
}
