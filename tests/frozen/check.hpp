// tests/frozen/check.hpp — a comparison of each row of tests/data/frozen with the bytes of its codec.
#pragma once

#include <pith/parse.hpp>
#include <pith/wire/detail/version_0.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "frozen/rows.hpp"

namespace frozen {

inline std::vector<line> rows_in(char const* name) {
  auto file = std::ifstream(std::string(PITH_TEST_DATA) + "/frozen/" + name);
  auto all = std::vector<line>();
  for (auto l = line(); file >> l;) all.push_back(l);
  REQUIRE(!all.empty());
  REQUIRE(file.eof());
  return all;
}

/// The rows of wire version 1, and those of version 0 that it did not change.
inline std::vector<line> rows() {
  auto all = rows_in("v1.txt");
  auto const end = all.size();
  for (auto& l : rows_in("v0.txt")) {
    l.text = pith::detail::name_from_version_0(l.text);
    auto const replaces = [&](line const& other) {
      return other.element == l.element && other.sizes == l.sizes && other.text == l.text;
    };
    auto const newest = all.begin() + static_cast<std::ptrdiff_t>(end);
    if (std::find_if(all.begin(), newest, replaces) == newest) all.push_back(l);
  }
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
