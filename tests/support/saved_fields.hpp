// tests/support/saved_fields.hpp — reads and writes saved states by docs/state_format.md, without the library.
#pragma once

#include <pith/codec/detail/saved_state.hpp>
#include <pith/core/element.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace support {

using state_bytes = std::vector<std::byte>;

/// A field. Values are doubles, which represent all element types of fields exactly except large uint64.
struct saved_field {
  std::string kind, element;
  std::size_t count = 0;
  unsigned places = 1;
  std::uint64_t granule = 0;
  std::vector<double> values = {};
};

/// Calls f with a value of the element's type.
template <class F>
auto of_element(std::string const& element, F const& f) {
  if (element == "float") return f(float());
  if (element == "double") return f(double());
  if (element == "half") return f(pith::half());
  if (element == "bfloat16") return f(pith::bfloat16());
  if (element == "uint32") return f(std::uint32_t());
  if (element == "uint64") return f(std::uint64_t());
  return f(std::uint8_t());
}

template <class T>
double as_double(T x) {
  if constexpr (pith::real<T>) {
    return pith::element_cast<double>(x);
  } else {
    return static_cast<double>(x);
  }
}
template <class T>
T from_double(double x) {
  if constexpr (pith::real<T>) {
    return pith::element_cast<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

/// A state of gradient_exchange: its header lines, and its fields.
struct saved_fields {
  std::vector<std::string> lines;
  unsigned rank = 0, ranks = 1;
  std::vector<saved_field> fields;

  saved_field const& of_kind(std::string const& kind) const {
    return *std::find_if(fields.begin(), fields.end(), [&](auto const& f) { return f.kind == kind; });
  }
};

inline saved_fields read_state(state_bytes const& saved) {
  std::uint64_t words = 0;
  std::memcpy(&words, saved.data() + 16, sizeof words);
  auto text = std::istringstream(std::string(reinterpret_cast<char const*>(saved.data()) + 32, words));
  auto read = saved_fields();
  auto const* at = saved.data() + 32 + words;
  for (std::string line; std::getline(text, line);) {
    auto word = std::istringstream(line);
    std::string first, skipped;
    word >> first;
    if (first == "rank") word >> read.rank >> skipped >> read.ranks;
    if (first != "field") {
      read.lines.push_back(line);
      continue;
    }
    auto f = saved_field();
    word >> f.kind >> f.element >> f.count >> skipped >> f.places >> skipped >> f.granule;
    for (std::size_t i = 0; i < f.count; ++i) {
      f.values.push_back(of_element(f.element, [&](auto x) {
        std::memcpy(&x, at, sizeof x);
        at += sizeof x;
        return as_double(x);
      }));
    }
    read.fields.push_back(f);
  }
  return read;
}

/// The state of one tensor with these fields.
inline state_bytes write_state(unsigned rank, unsigned ranks, std::vector<saved_field> const& fields) {
  auto words = std::ostringstream();
  words << "gradient_exchange\nrank " << rank << " of " << ranks << "\nseed 7\nelements of float\ntensor \"w\" of 5\n";
  auto bytes = state_bytes();
  for (auto const& f : fields) {
    words << "field " << f.kind << ' ' << f.element << ' ' << f.values.size() << " places " << f.places << " granule "
          << f.granule << '\n';
    for (auto const value : f.values) {
      of_element(f.element, [&](auto x) {
        x = from_double<decltype(x)>(value);
        bytes.resize(bytes.size() + sizeof x);
        std::memcpy(bytes.data() + bytes.size() - sizeof x, &x, sizeof x);
      });
    }
  }
  return pith::detail::save_states(words.str(), bytes);
}

}  // namespace support
