// tests/benchmarks/catalogue_test.cpp — the catalogue has a row for every method that text can say.
#include "../../benchmarks/catalogue.hpp"
#include "../../benchmarks/page.hpp"
#include "../../examples/train/reference_codecs.hpp"
#include "support/parsed.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

/// The word of a stage: qsgd of qsgd<8>(5,64), but cast<half> of cast<half>.
std::string word_of(std::string stage) {
  stage.resize(std::min(stage.find('('), stage.size()));
  return std::regex_replace(stage, std::regex("<(Bits|[0-9]+)>"), "");
}

/// The words of stages that a text has between marks.
std::set<std::string> words_between(std::string const& text, std::string const& mark) {
  auto words = std::set<std::string>();
  auto const marks = std::regex(mark);
  auto const end = std::sregex_token_iterator();
  for (auto at = std::sregex_token_iterator(text.begin(), text.end(), marks, -1); at != end; ++at)
    words.insert(word_of(*at));
  return words;
}

std::set<std::string> words_of_rows() {
  auto words = std::set<std::string>();
  for (auto const& m : bench::catalogue) words.merge(words_between(m.codec, "\\|"));
  return words;
}

}  // namespace

TEST_CASE("each row is a codec by the name that it gives itself") {
  auto const families =
      std::set<std::string>{"none", "quantization", "sparsification", "hybrid", "low rank", "transform"};
  auto names = std::set<std::string>();
  for (auto const& m : bench::catalogue) {
    CAPTURE(m.codec);
    if (!train::reference_codec(m.codec)) CHECK(pith::parse<float>(m.codec).name() == m.codec);
    CHECK(families.contains(m.family));
    CHECK(names.insert(m.name).second);
  }
}

TEST_CASE("each stage that parse names has a row") {
  auto const rows = words_of_rows();
  for (auto const& method : pith::stage_listings) {
    CAPTURE(method.form);
    CHECK(rows.contains(word_of(std::string(method.form))));
  }
}

TEST_CASE("a section of a page is replaced and the rest is left alone") {
  auto const page = std::string("a\n<!-- one -->\nold\n<!-- end -->\nb\n<!-- two -->\n<!-- end -->\n");
  CHECK(bench::with_section(page, "one", "new\n") ==
        "a\n<!-- one -->\nnew\n<!-- end -->\nb\n<!-- two -->\n<!-- end -->\n");
  CHECK(bench::with_section(page, "two", "new\n") ==
        "a\n<!-- one -->\nold\n<!-- end -->\nb\n<!-- two -->\nnew\n<!-- end -->\n");
  CHECK_THROWS_WITH_AS(bench::with_section(page, "three", ""), "the page has no section <!-- three --> .. <!-- end -->",
                       std::invalid_argument);
}
