// tests/support/registered_texts.hpp — the registry's examples of codecs, and these texts with other arguments.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace support {

/// Calls f(text) for each example of each listing.
template <class Listings, class F>
void for_each_example(Listings const& listings, F const& f) {
  for (auto const& one : listings) {
    for (std::size_t i = 0; i < one.examples(); ++i) f(std::string(one.texts[i]));
  }
}

/// Returns one text per argument that consists of the letters `digits`. In this text, `by` replaces the argument.
inline std::vector<std::string> with_argument(std::string const& text, std::string_view digits, std::string const& by) {
  auto made = std::vector<std::string>();
  for (std::size_t i = 1; i < text.size(); ++i) {
    auto const end = text.find_first_not_of(digits, i);
    auto const is_argument = (text[i - 1] == '(' || text[i - 1] == ',') && end != i && end != text.npos;
    if (is_argument && (text[end] == ',' || text[end] == ')'))
      made.push_back(text.substr(0, i) + by + text.substr(end));
  }
  return made;
}

}  // namespace support
