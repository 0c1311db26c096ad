// tests/adaptor/bypass_test.cpp — small tensors travel dense.
#include <pith/adaptor/bypass.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/conform.hpp"

using namespace support;
using pith::bypass;

TEST_CASE("bypass takes any input of any size and type") {
  conforms(bypass(pith::error_feedback(pith::scaled_sign()), 128));
  conforms(bypass(pith::top_k(0.1), 0));
}

TEST_CASE_TEMPLATE("tensors below the border are exact and those at it are compressed", In, float, double, pith::half,
                   pith::bfloat16) {
  auto const codec = bypass(pith::error_feedback(pith::scaled_sign()), 8);
  auto const seven = narrow<In>(normal_vector(7, 1)), eight = narrow<In>(normal_vector(8, 1));
  auto dense = trial<In, std::remove_const_t<decltype(codec)>>(codec, {7});
  auto sparse = trial<In, std::remove_const_t<decltype(codec)>>(codec, {8});
  CHECK(dense.payload_bytes() == 7 * sizeof(In));
  CHECK(same_bytes(dense.roundtrip(seven), seven));
  CHECK(same_bytes(dense.all_reduce(seven), seven));
  CHECK(sparse.payload_bytes() == 8 + sizeof(pith::accum<In>));
  CHECK(!same_bytes(sparse.roundtrip(eight), eight));
  CHECK(!same_bytes(sparse.all_reduce(eight), eight));
  CHECK(codec.is_lossless({7}));
  CHECK(!codec.is_lossless({8}));
}

TEST_CASE("small is less than 1024 elements where nothing is said") {
  auto const codec = bypass(pith::top_k(0.5));
  CHECK(codec.is_lossless({1023}));
  CHECK(!codec.is_lossless({1024}));
  CHECK(codec.name() == "bypass(top_k(0.5),1024)");
  CHECK(bypass(pith::any_codec<float, pith::seq_executor>(pith::top_k(0.5))).name() == codec.name());
}

TEST_CASE("payloads are smaller than values from the usual border on") {
  auto const is_smaller = [](auto const& codec) {
    auto const least = bypass<std::remove_cvref_t<decltype(codec)>>::usual_least;
    return pith::payload_bytes<float>(codec, {least}) < least * sizeof(float);
  };
  CHECK(is_smaller(pith::scaled_sign()));
  CHECK(is_smaller(pith::top_k(0.1)));
}

TEST_CASE("nothing is kept for a small tensor") {
  struct counter : pith::field_visitor {
    std::size_t bytes = 0;
    void visit(void*, std::size_t n) override { bytes += n; }
  };
  auto const codec = bypass(pith::error_feedback(pith::power_sgd(1)), 101);
  auto const kept = [&](pith::shape dims) {
    auto state = pith::make_state<float>(pith::seq, codec, dims);
    auto seen = counter();
    state.fields(seen);
    return seen.bytes - sizeof(std::uint64_t);  // less the step
  };
  CHECK(kept({100, 10}) == 0);
  CHECK(kept({110, 10}) == (110 + 10 + 11) * sizeof(float));
}

TEST_CASE("a dense exchange over ranks is their mean") {
  auto t = trial<float, bypass<pith::top_k<>>>(bypass(pith::top_k(0.5), 100), {3});
  CHECK(t.all_reduce(of({1, 2, -3}), echo_communicator<4>()) == of({1, 2, -3}));
}

TEST_CASE("bypass contracts as its codec does and says its name") {
  auto const codec = bypass(pith::top_k(0.1), 100);
  CHECK(codec.delta({99}) == 1);
  CHECK(codec.delta({100}) == 0.1);
  CHECK(codec.name() == "bypass(top_k(0.1),100)");
  auto const bounded = bypass(pith::threshold(0.5), 100);
  CHECK(bounded.error_bound({99}) == 0);
  CHECK(bounded.error_bound({100}) == 0.5);
}
