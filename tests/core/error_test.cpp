// tests/core/error_test.cpp — what sentences are made of, beside what a stream writes.
#include <pith/core/error.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

template <class... Parts>
std::string streamed(Parts const&... parts) {
  auto stream = std::ostringstream();
  static_cast<void>((stream << ... << parts));
  return stream.str();
}

}  // namespace

TEST_CASE("a text has words letters and numbers as a stream writes them") {
  auto const check = [](auto const&... parts) { CHECK(pith::detail::text(parts...) == streamed(parts...)); };
  char const* const words = "words";
  check();
  check(words, " of ", std::string("three"), std::string_view(" kinds"), '!');
  check(true, false, 'c', std::int16_t{-3}, std::uint16_t{65535}, 0, -7, 7u);
  check(std::numeric_limits<std::int64_t>::min(), ' ', std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("real numbers are the shortest text that reads back") {
  for (auto const x : {0.0, -0.0, 1.0, 0.1, 1.0 / 3, -2.5, 1e-5, 1.0000001, 123456.0, 1234567.0, 1e30, 5e-324}) {
    CHECK(std::strtod(pith::detail::text(x).c_str(), nullptr) == x);
    auto const narrow = static_cast<float>(x);
    CHECK(std::strtof(pith::detail::text(narrow).c_str(), nullptr) == narrow);
  }
  CHECK(pith::detail::text(0.1, ' ', 0.1f, ' ', 1.0000001, ' ', -2.5) == "0.1 0.1 1.0000001 -2.5");
  auto const infinity = std::numeric_limits<double>::infinity();
  CHECK(pith::detail::text(infinity, -infinity, 1e300) == streamed(infinity, -infinity, 1e300));
}

TEST_CASE("hexadecimal digits are those of a stream") {
  for (auto const x : {std::uint64_t{0}, std::uint64_t{0xabcdef}, ~std::uint64_t{}})
    CHECK(pith::detail::hexadecimal(x) == streamed(std::hex, x));
}

TEST_CASE("require throws an error whose text begins with the library's name") {
  CHECK_NOTHROW(pith::detail::require(true, "never"));
  CHECK_THROWS_WITH_AS(pith::detail::require(false, "f: n must be ", 2, ", got ", 3u), "pith::f: n must be 2, got 3",
                       std::invalid_argument);
}
