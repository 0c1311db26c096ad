// tests/device/list_test.cpp — every codec of the main job's list has a case on a device, or is named as one of the host.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "../examples/train/listed.hpp"
#include "device/chains.hpp"
#include "device/estimators.hpp"
#include "device/exchanges.hpp"
#include "device/low_rank.hpp"
#include "device/policies.hpp"
#include "device/quantizers.hpp"
#include "device/random_entries.hpp"
#include "device/selections.hpp"
#include "device/signs.hpp"
#include "device/slices.hpp"
#include "device/sums.hpp"

namespace {

using words = std::set<std::string>;

/// The names in a codec's text, with the type or the bits that belong to them; not its numbers and options.
words words_of(std::string const& text) {
  static auto const word = std::regex("[a-z][a-z0-9_]*(<[a-z0-9]+>)?");
  auto found = words();
  for (auto i = std::sregex_iterator(text.begin(), text.end(), word); i != std::sregex_iterator(); ++i)
    found.insert(i->str());
  return found;
}

/// The names in all cases.
struct listing {
  words found;

  template <class C>
  void execute(C const& codec, pith::shape) {
    found.merge(words_of(codec.name()));
  }
  template <class C>
  void execute_inexact(C const& codec, pith::shape dims) {
    execute(codec, dims);
  }
  template <class C>
  void sum(C const& codec, pith::shape dims) {
    execute(codec, dims);
  }
  template <class C>
  void exchange(C const& codec, pith::shape dims) {
    execute(codec, dims);
  }
  template <class C>
  void exchange_own(C const& codec, pith::shape dims) {
    execute(codec, dims);
  }
};

words words_of_cases() {
  auto list = listing();
  device::chains(list);
  device::estimators(list);
  device::exchanges(list);
  device::low_rank(list);
  device::policies(list);
  device::quantizers(list);
  device::random_entries(list);
  device::selections(list);
  device::signs(list);
  device::slices(list);
  device::sums(list);
  return list.found;
}

/// Kept for comparison, on seq (pith/comparison/).
bool is_for_hosts(std::string const& codec) {
  return codec.starts_with("inceptionn") || codec.starts_with("adaptive_threshold") || codec.starts_with("sketch_ml");
}

}  // namespace

TEST_CASE("every codec of the list has a case on a device") {
  auto const cases = words_of_cases();
  for (auto const& listed : train::codec_words()) {
    if (is_for_hosts(listed.example)) continue;
    CAPTURE(listed.example);
    auto missing = words();
    std::ranges::set_difference(words_of(listed.example), cases, std::inserter(missing, missing.end()));
    missing.erase("flat");  // a mark for exchanges: grouped_tensors.cu
    CHECK(missing == words());
  }
}
