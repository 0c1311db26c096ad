// tests/benchmarks/catalogue_page_test.cpp — docs/catalogue.md has a row for each method.
#include "../../benchmarks/catalogue.hpp"
#include "../../benchmarks/page.hpp"

#include <doctest/doctest.h>

#include <string>

TEST_CASE("the page has a row for each method") {
  auto const page = bench::read_page(std::string(PITH_SOURCE) + "/docs/catalogue.md");
  for (auto const& m : bench::catalogue) {
    CAPTURE(m.name);
    CHECK_MESSAGE(page.find("\n| " + std::string(m.name) + " | `") != std::string::npos,
                  "build the target catalogue and run it with --update docs/catalogue.md");
  }
}
