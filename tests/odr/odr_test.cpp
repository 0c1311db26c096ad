// tests/odr/odr_test.cpp — translation units that all include pith link into one program.
#include <pith/pith.hpp>

#include <doctest/doctest.h>

int version_seen_by_second();

TEST_CASE("two translation units include pith and link") { CHECK(version_seen_by_second() == PITH_VERSION_MINOR); }
