// tests/frozen/check.hpp — a comparison of each row of tests/data/frozen/rows.txt with the bytes of its codec.
#pragma once

#include <pith/parse.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "frozen/rows.hpp"

namespace frozen {

inline std::vector<line> rows() {
  auto file = std::ifstream(std::string(PITH_TEST_DATA) + "/frozen/rows.txt");
  auto all = std::vector<line>();
  for (auto l = line(); file >> l;) all.push_back(l);
  REQUIRE(!all.empty());
  REQUIRE(file.eof());
  return all;
}

/// Calls f(line) for the rows of an element type and sizes. Fails if there are no such rows.
template <class In, class F>
void for_each_row(std::string_view sizes, F const& f) {
  auto seen = 0;
  for (auto const& l : rows()) {
    if (l.element != pith::element_name<In>() || l.sizes != sizes) continue;
    CAPTURE(l.element);
    CAPTURE(l.text);
    f(l);
    ++seen;
  }
  CHECK(seen > 0);
}

template <class In, pith::executor E>
void check(E const& exec, std::string_view sizes) {
  for_each_row<In>(sizes, [&](line const& l) {
    auto const made = row_of<In>(exec, pith::parse<In, E>(l.text), sizes);
    CHECK(made.payloads == l.digests.payloads);
    CHECK(made.states == l.digests.states);
    CHECK(made.means == l.digests.means);
  });
}

}  // namespace frozen
