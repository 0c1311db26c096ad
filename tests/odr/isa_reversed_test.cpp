// tests/odr/isa_reversed_test.cpp — isa_test, whose units are linked the other way round.
#include "odr/isa_test.cpp"
