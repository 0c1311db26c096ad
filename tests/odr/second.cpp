// tests/odr/second.cpp — another translation unit for odr_test.cpp.
#include <pith/pith.hpp>

int version_seen_by_second() { return PITH_VERSION_MINOR; }
