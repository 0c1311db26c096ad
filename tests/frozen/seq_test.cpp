// tests/frozen/seq_test.cpp — the bytes that floats become on seq, by code that is not optimised; what the rows cover.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "frozen/check.hpp"
#include "support/parsed.hpp"

namespace {

/// The words of a text: `ef`, `top_k` and `qsgd` of ef(top_k(0.01)|qsgd<8>).
std::vector<std::string> words_of(std::string const& text) {
  auto words = std::vector<std::string>(1);
  for (auto const c : text) {
    auto const is_letter = (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9');
    if (is_letter) words.back() += c;
    if (!is_letter && !words.back().empty()) words.emplace_back();
  }
  return words;
}

std::vector<std::string> words_of_rows() {
  auto all = std::vector<std::string>();
  frozen::for_each_row<float>("small", [&](auto const& l) {
    auto const words = words_of(l.text);
    all.insert(all.end(), words.begin(), words.end());
  });
  return all;
}

template <class Methods>
void check_all_in(std::vector<std::string> const& words, Methods const& methods) {
  for (auto const& method : methods) {
    auto const word = std::string(method.name());
    CAPTURE(word);
    CHECK(std::find(words.begin(), words.end(), words_of(word).front()) != words.end());
  }
}

}  // namespace

TEST_CASE("every word that parse reads is in a row") {
  auto const words = words_of_rows();
  check_all_in(words, pith::stage_listings);
  check_all_in(words, pith::exchange_listings);
  check_all_in(words, pith::policy_listings);
}

TEST_CASE("floats become the bytes of their rows on seq") { frozen::check<float>(pith::seq, "small"); }
