// tests/adaptor/damped_test.cpp — an unbiased stage, shrunk.
#include <pith/adaptor/damped.hpp>
#include <pith/codec/chain.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/random_k.hpp>

#include <doctest/doctest.h>

#include "support/conform.hpp"

using namespace support;
using pith::damped;

TEST_CASE("damped takes any input of any size and type") {
  using namespace pith::options;
  conforms(damped(pith::qsgd<2>()));
  conforms(damped(pith::random_k(0.1, unbiased)));
}

TEST_CASE_TEMPLATE("damped encodes the same bytes as its stage and decodes them scaled by 1 / (1 + omega)", In, float,
                   double) {
  auto const x = narrow<In>(normal_vector(300, 7));
  auto const stage = pith::qsgd<2>();
  auto plain = trial<In, pith::qsgd<2>>(stage, {300});
  auto shrunk = trial<In, damped<pith::qsgd<2>>>(damped(stage), {300});
  auto const payload = plain.compress(x);
  CHECK(payload == shrunk.compress(x));
  auto const y = widen(plain.decompress(payload)), z = widen(shrunk.decompress(payload));
  auto const factor = 1 / (1 + stage.omega({300}));
  // The factor is rounded, then the product.
  for (std::size_t i = 0; i < 300; ++i) CHECK(std::abs(z[i] - factor * y[i]) <= 2.1 * roundoff<In>() * std::abs(z[i]));
  CHECK(damped(stage).delta({300}) == factor);
}

TEST_CASE("a stage without variance is not shrunk") {
  using namespace pith::options;
  auto const all = pith::random_k(1, unbiased);
  auto const x = widen(narrow<float>(normal_vector(30, 8)));
  CHECK(damped(all).delta({30}) == 1);
  CHECK(decoded(damped(all), x) == x);
}

TEST_CASE("a damped chain keeps its sizes") {
  using namespace pith::options;
  auto const chain = pith::random_k(0.25, unbiased) | pith::qsgd<4>();
  CHECK(pith::payload_bytes<float>(damped(chain), {1000}) == pith::payload_bytes<float>(chain, {1000}));
  CHECK(damped(chain).delta({1000}) == 1 / (1 + chain.omega({1000})));
  CHECK(damped(chain).name() == "damped(random_k(0.25,unbiased)|qsgd<4>)");
  conforms(damped(chain));
}
