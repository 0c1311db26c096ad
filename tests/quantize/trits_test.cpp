// tests/quantize/trits_test.cpp — five ternary symbols per byte.
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/terngrad.hpp>
#include <pith/quantize/trits.hpp>

#include <doctest/doctest.h>

#include "support/conform.hpp"

using namespace support;
using pith::qsgd;
using pith::terngrad;
using pith::trits;
using unclipped = pith::terngrad<pith::outliers::unclipped>;

static_assert(pith::traits_of<qsgd<2>>.ternary && !pith::traits_of<qsgd<3>>.ternary &&
              pith::traits_of<terngrad<>>.ternary);
static_assert(pith::promises_of<trits<unclipped>>.unbiased && !pith::promises_of<trits<terngrad<>>>.unbiased);

TEST_CASE("trits takes any input of any size and type") {
  conforms(trits(terngrad()));
  conforms(trits(qsgd<2>()));
}

TEST_CASE("seven symbols by hand") {
  auto t = trial<float, trits<unclipped>>(trits(unclipped()), {7});
  auto const x = of({2, 0, -2, -2, 2, -2, 2});
  auto const payload = t.compress(x);  // 1 + 0 3 + 2 9 + 2 27 + 1 81, and 2 + 1 3
  REQUIRE(payload.size() == 8 + 4);
  CHECK(payload[0] == std::byte{154});
  CHECK(payload[1] == std::byte{5});
  CHECK(t.decompress(payload) == x);
}

TEST_CASE_TEMPLATE("trits(terngrad) decodes to the same bytes as terngrad", In, float, double, pith::half,
                   pith::bfloat16) {
  for (std::uint64_t const n : {0u, 1u, 4u, 5u, 6u, 19u, 20u, 21u, 1000u, 4099u}) {
    auto const x = narrow<In>(normal_vector(n, 95));
    auto packed = trial<In, trits<terngrad<>>>(trits(terngrad()), {n});
    auto plain = trial<In, terngrad<>>(terngrad(), {n});
    for (int step = 0; step < 3; ++step) CHECK(same_bytes(packed.roundtrip(x), plain.roundtrip(x)));
  }
}

TEST_CASE("a payload has a fifth of a byte per element, and the side information of the stage") {
  CHECK(pith::payload_bytes<float>(trits(terngrad()), {1000}) == 200 + 4);
  CHECK(pith::payload_bytes<float>(trits(qsgd<2>()), {1001}) == 208 + 8 * 4);
  CHECK(pith::payload_bytes<float>(trits(terngrad()), {0}) == 0);
}

TEST_CASE("any byte decodes to -1, 0 and 1 times the scale") {
  auto t = trial<float, trits<unclipped>>(trits(unclipped()), {5});
  auto payload = t.compress(of({3, -3, 3, 0, 3}));
  for (unsigned byte = 0; byte < 256; ++byte) {
    payload[0] = static_cast<std::byte>(byte);
    for (auto const v : t.decompress(payload)) CHECK((v == 0 || std::abs(v) == 3));
  }
}

TEST_CASE("feedback and exchanges take it as any stage") {
  auto const fed = pith::error_feedback(trits(terngrad()), pith::unverified);
  auto t = trial<float, std::remove_const_t<decltype(fed)>>(fed, {100});
  auto const plain = pith::error_feedback(terngrad(), pith::unverified);
  auto u = trial<float, std::remove_const_t<decltype(plain)>>(plain, {100});
  auto const x = narrow<float>(normal_vector(100, 96));
  for (int step = 0; step < 4; ++step) {
    CHECK(t.all_reduce(x, echo_communicator<4>()) == u.all_reduce(x, echo_communicator<4>()));
  }
}

TEST_CASE("its name wraps that of the stage, and omega is the stage's") {
  CHECK(trits(terngrad()).name() == "trits(terngrad)");
  CHECK(trits(unclipped()).omega({100}) == unclipped().omega({100}));
}
