// tests/benchmarks/catalogue_page_test.cpp — docs/catalogue.md has a row for each codec and for each method.
#include "../../benchmarks/catalogue.hpp"
#include "../../benchmarks/page.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

std::string const page = bench::read_page(std::string(PITH_SOURCE) + "/docs/catalogue.md");

}  // namespace

TEST_CASE("the page has a row for each codec") {
  auto const table = page.substr(0, page.find("## Measured"));
  for (auto const& m : bench::catalogue) {
    auto const text = std::string(m.codec);
    auto const name = text.substr(0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"));
    CAPTURE(name);
    CHECK_MESSAGE((table.find("`" + name) != std::string::npos || table.find("`pith::" + name) != std::string::npos),
                  "write its row in the first table of docs/catalogue.md");
  }
}

TEST_CASE("the page has a row for each method") {
  for (auto const& m : bench::catalogue) {
    CAPTURE(m.name);
    CHECK_MESSAGE(page.find("\n| " + std::string(m.name) + " | `") != std::string::npos,
                  "build the target catalogue and run it with --update docs/catalogue.md");
  }
}
