// tests/adaptor/identity_test.cpp — every bit arrives.
#include <pith/adaptor/identity.hpp>

#include <doctest/doctest.h>

#include "support/conform.hpp"

using namespace support;

TEST_CASE("identity takes any input of any size and type") { conforms(pith::identity()); }

TEST_CASE_TEMPLATE("identity keeps every bit", In, float, double, pith::half, pith::bfloat16) {
  auto const x = of<In>({0, -0.0, 1.1, -3, not_a_number, infinity, 1e-40, 5e4});
  auto t = trial<In, pith::identity>(pith::identity(), {8});
  CHECK(t.payload_bytes() == 8 * sizeof(In));
  CHECK(same_bytes(t.roundtrip(x), x));
}

TEST_CASE("identity claims no error") {
  auto const is = pith::capabilities_of(pith::identity(), {5});
  CHECK(*is.omega == 0);
  CHECK(*is.delta == 1);
  CHECK(*is.error_bound == 0);
  CHECK(is.projection);
  CHECK(is.sums == pith::sum_form::encode);
  CHECK(pith::identity().name() == "identity");
}
