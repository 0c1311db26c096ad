// tests/codec/fed_back_test.cpp — the residual of a tensor, and the used bytes of a payload.
#include <pith/codec/codec_state.hpp>
#include <pith/codec/compact.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/sparsify/threshold.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"
#include "support/roundtrip.hpp"

#include <stdexcept>
#include <string>
#include <vector>

TEST_CASE("fed_back() returns the gradient minus the received mean on one rank") {
  auto comm = pith::self_communicator();
  for (std::string const text :
       {"ef(top_k(0.1))", "ef(top_k(0.1)|qsgd<8>)", "ef(scaled_sign)", "bypass(ef(top_k(0.1)),8)"}) {
    CAPTURE(text);
    auto ex = pith::make_exchange<float>(pith::seq, comm, {{"weight", {100}}, {"bias", {3}}}, pith::parse<float>(text));
    auto g = support::narrow<float>(support::normal_vector(103, 5));
    auto const before = g;
    ex.all_reduce_mean(g);
    auto const kept = ex.fed_back(0);
    REQUIRE(kept.size() == 100);
    for (std::size_t i = 0; i < 100; ++i) CHECK(kept[i] == before[i] - g[i]);
  }
}

TEST_CASE("fed_back() is empty without feedback, and has two values per element with momentum correction") {
  auto comm = pith::self_communicator();
  auto const kept = [&](std::string const& text) {
    auto ex = pith::make_exchange<float>(pith::seq, comm, {{"weight", {100}}}, pith::parse<float>(text));
    CHECK_THROWS_AS(ex.fed_back(1), std::invalid_argument);
    return ex.fed_back(0).size();
  };
  CHECK(kept("top_k(0.1)") == 0);
  CHECK(kept("ef(top_k(0.1),momentum_correction(0.9))") == 200);
}

TEST_CASE("used_bytes is below the payload size of threshold, equals that of top_k, and refuses a short payload") {
  auto x = std::vector<float>(100);
  for (std::size_t i = 0; i < 7; ++i) x[i * 3] = 5;
  auto const used = [&](auto const& codec) {
    auto t = support::trial<float, std::decay_t<decltype(codec)>>(codec, {100});
    auto const payload = t.compress(x);
    return pith::used_bytes<float>(pith::seq, codec, {100}, pith::span<std::byte const>(payload));
  };
  auto const all = pith::payload_bytes<float>(pith::threshold(1.0, 0.5), {100});
  CHECK(used(pith::threshold(1.0, 0.5)) < all);
  CHECK(used(pith::top_k(0.1)) == pith::payload_bytes<float>(pith::top_k(0.1), {100}));
  auto const payload = std::vector<std::byte>(8);
  CHECK_THROWS_AS(pith::used_bytes<float>(pith::seq, pith::top_k(0.1), {100}, pith::span<std::byte const>(payload)),
                  std::invalid_argument);
}
