// tests/parse_test.cpp — a codec from its text, and one clear error for any other text.
#include <pith/comm/self.hpp>
#include <pith/exchange/all_reduce_mean.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace {

std::string name_of(char const* text) { return pith::parse<float>(text).name(); }

/// Whether the errors of parse list the word.
bool is_listed(std::string_view word) {
  auto const has = [&](auto const& methods) {
    return std::any_of(methods.begin(), methods.end(), [&](auto const& method) { return method.name() == word; });
  };
  return has(pith::stage_listings) || has(pith::exchange_listings);
}

/// What parse says of a text that it refuses.
std::string refusal(std::string const& text) {
  try {
    pith::parse<float>(text);
  } catch (std::invalid_argument const& refused) {
    return refused.what();
  }
  return "";
}

bool says(std::string const& text, std::string const& words) { return refusal(text).find(words) != std::string::npos; }

}  // namespace

TEST_CASE("an executor may be passed for its type") {
  auto const codec = pith::parse<float>(pith::seq, "qsgd<8>");
  static_assert(std::is_same_v<decltype(codec), pith::any_codec<float, pith::seq_executor> const>);
  CHECK(codec.name() == "qsgd<8>");
}

TEST_CASE("the name of a parsed codec equals its text and can be parsed again") {
  for (auto const* text : {"identity",
                           "cast<half>",
                           "cast<bfloat16>",
                           "stochastic_cast<bfloat16>",
                           "scaled_sign",
                           "scaled_sign(256)",
                           "sign",
                           "sign(zero)",
                           "summed_sign",
                           "summed_sign(zero)",
                           "one_bit",
                           "one_bit(256)",
                           "one_bit(row)",
                           "one_bit(column)",
                           "terngrad",
                           "terngrad(3)",
                           "terngrad(0)",
                           "terngrad(0,64)",
                           "terngrad(2.5,64)",
                           "summed_terngrad",
                           "summed_terngrad(0)",
                           "trits(terngrad)",
                           "trits(qsgd<2>)",
                           "natural<8>",
                           "natural<9>",
                           "damped(natural<8>)",
                           "damped(trits(terngrad(0)))",
                           "ef(summed_terngrad,unverified)",
                           "ef(sign,unverified)",
                           "hadamard|natural<9>",
                           "qsgd<8>",
                           "qsgd<4>(3,64)",
                           "qsgd<4>(3,64,max)",
                           "qsgd<10>(256,128)",
                           "top_k(0.01)",
                           "top_k(0.01,packed_indices)",
                           "chunk_top_k(64,4096)",
                           "threshold(0.01)",
                           "threshold(0.01,0.1)",
                           "threshold(0.01,0.1,dense)",
                           "redsync(0.01)",
                           "redsync_mean(0.01)",
                           "sidco(0.01)",
                           "sidco(0.01,exponential,2)",
                           "sidco(0.01,pareto)",
                           "sidco(0.01,gamma,3)",
                           "gaussian_k(0.01)",
                           "gaussian_k(0.01,fine)",
                           "ef(sidco(0.01)|qsgd<8>,unverified)",
                           "random_k(0.1)",
                           "random_k(0.1,unbiased)",
                           "random_k(0.1,none,own)",
                           "random_k(0.1,unbiased,own)",
                           "random_blocks(0.1,64)",
                           "random_blocks(0.1,8,unbiased)",
                           "eight_bit",
                           "eight_bit(128)",
                           "eight_bit(0,floor)",
                           "block_int<8>",
                           "block_int<4>(32)",
                           "block_int<2>(0)",
                           "block_int<2>(32,clip)",
                           "mxfp8",
                           "mxfp8(e5m2)",
                           "mxfp8(e4m3,even)",
                           "mxfp6(e3m2,rceil)",
                           "mxfp4",
                           "mxfp4(floor)",
                           "mxint8(ceil)",
                           "nvfp4",
                           "nvfp4(four_or_six)",
                           "two_magnitudes",
                           "chunk_top_k(64,4096)|two_magnitudes(32)",
                           "eden<4>",
                           "eden<3>(64)",
                           "eden<8>(64,unbiased)",
                           "hadamard|hadamard|eden<1>",
                           "hadamard",
                           "hadamard(64)",
                           "hadamard|qsgd<4>",
                           "power_sgd(4)",
                           "power_sgd(4,10)",
                           "power_sgd(1,1.5)",
                           "one_sided_power_sgd(4)",
                           "one_sided_power_sgd(4,10)",
                           "ef(one_sided_power_sgd(2),own_residual)",
                           "hierarchical(qsgd<8>,ef(top_k(0.01)),8)",
                           "ef(hierarchical(top_k(0.5)|qsgd<8>,hierarchical(identity,ring(qsgd<8>),2),4))",
                           "damped(qsgd<2>)",
                           "top_k(0.01)|qsgd<8>",
                           "top_k(0.5)|top_k(0.5)|damped(qsgd<2>)",
                           "ef(top_k(0.01)|qsgd<8>)",
                           "ef(power_sgd(2))",
                           "ef(qsgd<2>,unverified)",
                           "ef(top_k(0.1),residual(0.9,0.5))",
                           "ef(qsgd<2>,residual(0.9,1),unverified)",
                           "ef(top_k(0.1),residual<bfloat16>)",
                           "ef(scaled_sign,residual<bfloat16>(0.9,1))",
                           "ef(power_sgd(2),own_residual)",
                           "ef(block_int<4>,loco(0.8,1024))",
                           "ef(top_k(0.1),mean_residual(0.9,1))",
                           "ef(qsgd<2>,no_feedback)",
                           "ef(scaled_sign,ef_sign(0.1))",
                           "ef(sign,signum_momentum(0.9))",
                           "ef(top_k(0.001),momentum_correction(0.9))",
                           "ef(power_sgd(2),momentum_correction(0.9,nesterov,unmasked,clip_norm(0.25)))",
                           "ef(identity,momentum_correction(0.5,clip_value(2)))",
                           "ef(top_k(0.1),ef21)",
                           "ef(top_k(0.1),ef21(0.1),unverified)",
                           "ef(scaled_sign,two_sided(top_k(0.1)|qsgd<8>))",
                           "ef(power_sgd(1),two_sided(power_sgd(1),residual(0.9,1)))",
                           "ef(scaled_sign,two_sided(scaled_sign,ef_sign(0.1)))",
                           "rated(top_k(0.01))",
                           "rated(top_k(0.01)|qsgd<8>,0.5)",
                           "rated(random_k(0.1),dense)",
                           "ef(rated(top_k(0.1),0.5,dense),momentum_correction(0.9))",
                           "bypass(ef(rated(sidco(0.01)),unverified),1024)",
                           "bypass(ef(scaled_sign),1024)"}) {
    CHECK(name_of(text) == text);
    CHECK(is_listed(pith::detail::name_of(text)));
  }
}

TEST_CASE("blanks and defaults may be written or not") {
  CHECK(name_of(" ef( top_k( 0.010 ) | qsgd< 8 >() ) ") == "ef(top_k(0.01)|qsgd<8>)");
  CHECK(name_of("qsgd<8>(127, 128, l2)") == "qsgd<8>");
  CHECK(name_of("random_k(1e-1, none)") == "random_k(0.1)");
  CHECK(name_of("sign(positive)") == "sign");
  CHECK(name_of("one_bit(0)") == "one_bit");
  CHECK(name_of("terngrad(2.5, 0)") == "terngrad");
  CHECK(name_of("power_sgd(4, 2)") == "power_sgd(4)");
  CHECK(name_of("ef(scaled_sign, residual)") == "ef(scaled_sign)");
  CHECK(name_of("rated(top_k(0.1), 1)") == "rated(top_k(0.1))");
  CHECK(name_of("ef(top_k(0.1),residual(0.5))") == "ef(top_k(0.1),residual(0.5,1))");
  CHECK(name_of("bypass(top_k(0.1))") == "bypass(top_k(0.1),1024)");
  CHECK(name_of("ef(scaled_sign, signum_momentum)") == "ef(scaled_sign,signum_momentum(0.9))");
  CHECK(name_of("ef(top_k(0.1), momentum_correction)") == "ef(top_k(0.1),momentum_correction(0.9))");
}

TEST_CASE("the name of a type is the name of its text") {
  CHECK((pith::top_k(0.01) | pith::qsgd<8>()).name() == name_of("top_k(0.01)|qsgd<8>"));
  CHECK(pith::error_feedback(pith::power_sgd(2)).name() == name_of("ef(power_sgd(2))"));
  CHECK(pith::bypass(pith::error_feedback(pith::scaled_sign()), 10).name() == name_of("bypass(ef(scaled_sign),10)"));
}

TEST_CASE("capabilities of parsed codecs are those of their types") {
  using namespace pith::options;
  auto const dims = pith::shape{1000, 50};
  auto const same = [&](auto const& typed, char const* text) {
    auto const a = pith::capabilities_of(typed, dims), b = pith::capabilities_of(pith::parse<float>(text), dims);
    CAPTURE(text);
    CHECK(a.omega == b.omega);
    CHECK(a.delta == b.delta);
    CHECK(a.projection == b.projection);
    CHECK(a.isometric == b.isometric);
    CHECK(a.rotation == b.rotation);
    CHECK(a.reproducible == b.reproducible);
    CHECK(a.sums == b.sums);
    CHECK(pith::payload_bytes<float>(typed, dims) == pith::payload_bytes<float>(pith::parse<float>(text), dims));
  };
  same(pith::top_k(0.1) | pith::qsgd<8>(), "top_k(0.1)|qsgd<8>");
  same(pith::top_k(0.1, pith::packed_indices()) | pith::qsgd<8>(), "top_k(0.1,packed_indices)|qsgd<8>");
  same(pith::top_k(0.1), "top_k(0.1,elias_fano)");
  same(pith::chunk_top_k(2, 16) | pith::qsgd<8>(), "chunk_top_k(2,16)|qsgd<8>");
  same(pith::random_k(0.1, unbiased) | pith::qsgd<8>(), "random_k(0.1,unbiased)|qsgd<8>");
  same(pith::random_k(0.1) | pith::cast<pith::half>(), "random_k(0.1)|cast<half>");
  same(pith::top_k(0.1) | pith::scaled_sign(), "top_k(0.1)|scaled_sign");
  same(pith::power_sgd(2), "power_sgd(2)");
  same(pith::power_sgd(2, 8), "power_sgd(2,8)");
  same(pith::one_sided_power_sgd(2), "one_sided_power_sgd(2)");
  same(pith::random_k(0.1, unbiased) | pith::terngrad(unclipped), "random_k(0.1,unbiased)|terngrad(0)");
  same(pith::terngrad(), "terngrad");
  same(pith::one_bit(column), "one_bit(column)");
  same(pith::top_k(0.1) | pith::natural<8>(), "top_k(0.1)|natural<8>");
  same(pith::threshold(0.5, 0.1), "threshold(0.5,0.1)");
  same(pith::threshold<pith::overflow::dense>(0.5, 0.1), "threshold(0.5,0.1,dense)");
  same(pith::redsync(0.1), "redsync(0.1)");
  same(pith::redsync_mean(0.1), "redsync_mean(0.1)");
  same(pith::sidco(0.1), "sidco(0.1)");
  same(pith::sidco(0.1, pareto, 2), "sidco(0.1,pareto,2)");
  same(pith::sidco(0.1, pith::options::gamma), "sidco(0.1,gamma)");
  same(pith::gaussian_k(0.1, pith::correction::fine), "gaussian_k(0.1,fine)");
}

TEST_CASE("a chain made at run time has the bytes of its type whatever lay in the payload") {
  auto const same = [](auto const& typed, char const* text, std::uint64_t n) {
    auto const bytes = [n](auto const& codec, std::byte before) {
      auto x = std::vector<float>(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>((i * 37) % 101) - 50;
      auto state = pith::make_state<float>(pith::seq, codec, {n});
      auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, {n}), before);
      auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {n}));
      auto ws = pith::workspace(pith::span(scratch));
      pith::compress(pith::seq, codec, x, payload, state, ws);
      return payload;
    };
    CHECK(bytes(typed, std::byte{0}) == bytes(pith::parse<float>(text), std::byte{0xff}));
  };
  same(pith::qsgd<8>(), "qsgd<8>", 13);
  same(pith::top_k(0.5) | pith::qsgd<4>(), "top_k(0.5)|qsgd<4>", 26);
  same(pith::natural<9>(), "natural<9>", 13);
  same(pith::top_k(0.5) | pith::sign(), "top_k(0.5)|sign", 27);
  same(pith::trits(pith::terngrad()), "trits(terngrad)", 33);
  same(pith::threshold(0.5, 0.3) | pith::qsgd<4>(), "threshold(0.5,0.3)|qsgd<4>", 97);
  same(pith::top_k(0.5) | pith::top_k(0.5) | pith::scaled_sign(), "top_k(0.5)|top_k(0.5)|scaled_sign", 101);
  same(pith::random_k(0.3) | pith::damped(pith::qsgd<2>()), "random_k(0.3)|damped(qsgd<2>)", 77);
}

TEST_CASE("a parsed chain is lossless only if all its stages are lossless") {
  CHECK(pith::parse<float>("identity|identity").is_lossless({9}));
  CHECK_FALSE(pith::parse<float>("identity|top_k(0.5)").is_lossless({9}));
}

TEST_CASE("feedback made from text has the bytes of its type") {
  auto const same = [](auto const& typed, char const* text) {
    auto const sent = [](auto const& codec) {
      auto state = pith::make_state<float>(pith::seq, codec, {300, 15});
      auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {300, 15}, 1));
      auto comm = pith::self_communicator();
      auto all = std::vector<float>();
      for (unsigned step = 0; step < 3; ++step) {
        auto x = std::vector<float>(300);
        for (std::size_t i = 0; i < 300; ++i) x[i] = static_cast<float>((i * 37 + step * 11) % 101) - 50;
        auto ws = pith::workspace(pith::span(scratch));
        pith::all_reduce_mean(pith::seq, comm, codec, pith::span<float>(x), state, ws);
        all.insert(all.end(), x.begin(), x.end());
      }
      return all;
    };
    CAPTURE(text);
    CHECK(sent(typed) == sent(pith::parse<float>(text)));
  };
  using pith::error_feedback;
  same(error_feedback(pith::top_k(0.1), pith::momentum_correction(0.9, {.nesterov = true})),
       "ef(top_k(0.1),momentum_correction(0.9,nesterov))");
  same(error_feedback(pith::power_sgd(1), pith::own_residual()), "ef(power_sgd(1),own_residual)");
  same(error_feedback(pith::top_k(0.1), pith::residual<pith::bfloat16>()), "ef(top_k(0.1),residual<bfloat16>)");
  same(error_feedback(pith::rated(pith::top_k(0.1) | pith::qsgd<4>())), "ef(rated(top_k(0.1)|qsgd<4>))");
  same(error_feedback(pith::rated(pith::random_k(0.1)).at(1)), "ef(rated(random_k(0.1),dense))");
  same(error_feedback(pith::top_k(0.1), pith::two_sided(pith::scaled_sign())), "ef(top_k(0.1),two_sided(scaled_sign))");
}

TEST_CASE("the rate of a parsed codec is set by at(), and its measured rates by measuring()") {
  auto const codec = pith::parse<float>("ef(rated(top_k(0.5)|qsgd<8>))");
  CHECK(codec.at(0.25).name() == "ef(rated(top_k(0.25)|qsgd<8>))");
  CHECK(codec.at(1).name() == "ef(rated(top_k(0.5)|qsgd<8>,dense))");
  CHECK(codec.at(1).is_lossless({64}) == false);  // it also sends the residual
  CHECK(pith::payload_bytes<float>(codec.at(1), {64}) == 64 * sizeof(float));
  CHECK(codec.measuring({0.5, 0.25}).measured_rates() == pith::rate_list{0.5, 0.25});
}

TEST_CASE("a state of another codec is refused") {
  auto const codec = pith::parse<float>("ef(top_k(0.5))");
  auto other = pith::make_state<float>(pith::seq, pith::parse<float>("power_sgd(1)"), {64, 8});
  auto x = std::vector<float>(64);
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, {64, 8}));
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {64, 8}));
  auto ws = pith::workspace(pith::span(scratch));
  CHECK_THROWS_WITH_AS(pith::compress(pith::seq, codec, x, payload, other, ws),
                       "pith::any_codec: the state must be one that make_state returned for this codec",
                       std::invalid_argument);
}

TEST_CASE("parse refuses invalid text with an error that states the expected and the actual part") {
  auto const refuses = [](char const* text, std::string const& sentence) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(pith::parse<float>(text), doctest::Contains(sentence.c_str()), std::invalid_argument);
  };
  refuses("", "expected a name or a number at column 1 of \"\", got the end");
  refuses("top_k(0.1", "expected ) at column 10");
  refuses("top_k(0.1)|", "expected a name or a number at column 12");
  refuses("top_k(0.1) qsgd<8>", "expected the end or | at column 12");
  refuses("qsgd<8", "expected > at column 7");
  refuses("zip", "\"zip\" is not a stage. Stages are identity");
  refuses("qsgd<1>", "Bits of qsgd<Bits> must be in [2, 10], got \"qsgd<1>\"");
  refuses("block_int<9>", "Bits of block_int<Bits> must be in [2, 8], got \"block_int<9>\"");
  refuses("natural", "Bits of natural<Bits> must be 8 or 9, got \"natural\"");
  refuses("natural<7>", "Bits of natural<Bits> must be 8 or 9, got \"natural<7>\"");
  refuses("one_bit(diagonal)", "expected a whole number in \"one_bit(diagonal)\", got \"diagonal\"");
  refuses("sign(negative)", "expected positive or zero in \"sign(negative)\", got \"negative\"");
  refuses("terngrad(-1)", "terngrad: sigma must be finite and at least 0, got -1");
  refuses("trits(scaled_sign)", "s of trits(s) must be terngrad or qsgd<2>, got \"scaled_sign\"");
  refuses("trits(qsgd<3>)", "s of trits(s) must be terngrad or qsgd<2>, got \"qsgd<3>\"");
  refuses("ef(summed_sign)", "c of ef(c) must be contractive, got summed_sign: write ef(summed_sign,unverified)");
  refuses("damped(terngrad)", "s of damped(s) must be unbiased, got terngrad");
  refuses("qsgd<8>(0)", "qsgd<8>: levels must be in [1, 127], got 0");
  refuses("qsgd<8>(99999999999999999999)", "got \"99999999999999999999\", which is out of range");
  refuses("qsgd<4>(1000)", "qsgd<4>: levels must be in [1, 7], got 1000");
  refuses("qsgd", "parse: qsgd must have <Bits>, got \"qsgd\"");
  refuses("power_sgd(2,2,half)", "expected full or bfloat16 in \"power_sgd(2,2,half)\", got \"half\"");
  refuses("qsgd<8>(127,100)", "bucket must be 0 (whole tensor) or a multiple of 8, got 100");
  refuses("qsgd<8>(127,128,l3)", "expected l2 or max in");
  refuses("top_k(often)", "expected a number in \"top_k(often)\", got \"often\"");
  refuses("top_k(1.5)", "top_k: density must be in (0, 1], got 1.5");
  refuses("threshold(0)", "threshold: tau must be positive and finite, got 0");
  refuses("threshold(1,0.1,drop)", "expected keep or dense in \"threshold(1,0.1,drop)\", got \"drop\"");
  refuses("random_k(0.1,none,both)", "expected shared or own in");
  refuses("random_blocks(0.1,4294967295)", "random_blocks: block must be in [1, 2048], got 4294967295");
  refuses("random_blocks(0.1,9999999999)", "got \"9999999999\", which is out of range");
  refuses("eight_bit(0,ceil)", "expected nearest or floor in");
  refuses("mxfp8(e2m1)", "expected e4m3 or e5m2 in \"mxfp8(e2m1)\", got \"e2m1\"");
  refuses("mxfp4(up)", "expected floor, even, ceil or rceil in \"mxfp4(up)\", got \"up\"");
  refuses("sidco(0.1,normal)", "expected exponential, gamma or pareto in \"sidco(0.1,normal)\", got \"normal\"");
  refuses("sidco(0.1,gamma,40)", "sidco: stages must be at most 32, got 40");
  refuses("redsync(2)", "redsync: density must be in (0, 1], got 2");
  refuses("two_magnitudes(12)", "two_magnitudes: bucket must be a multiple of 8 in [8, 8192], got 12");
  refuses("ef(qsgd<8>,loco(1))", "loco: beta must be in [0, 1), got 1");
  refuses("top_k(nan)", "top_k: density must be in (0, 1], got nan");
  refuses("top_k", "top_k takes 1 to 2 arguments, got \"top_k\"");
  refuses("top_k(0.1,elias)", "expected elias_fano or packed_indices in \"top_k(0.1,elias)\", got \"elias\"");
  refuses("hierarchical(qsgd<8>,identity,0)", "hierarchical: ranks_per_node must be at least 1, got 0");
  refuses("hierarchical(qsgd<8>,identity)", "hierarchical takes 3 arguments, got");
  refuses("power_sgd(0)", "power_sgd: rank must be at least 1, got 0");
  refuses("power_sgd(1,0.5)", "power_sgd: min_rate must be finite and at least 1, got 0.5");
  refuses("damped(top_k(0.1))", "s of damped(s) must be unbiased, got top_k(0.1)");
  refuses("qsgd<8>|top_k(0.1)",
          "the stage before top_k(0.1) must emit float, got qsgd<8>: put sparsifiers before quantizers");
  refuses("ef(bypass(top_k(0.1),9))", "These wrap a whole chain or stand alone: ef(c), bypass(c,n), flat(c), rated(c)");
  refuses("top_k(0.1)|rated(qsgd<8>)", "\"rated(qsgd<8>)\" is not a stage");
  refuses("rated(qsgd<8>)",
          "c of rated(c) must have exactly one stage with an adjustable rate, got \"rated(qsgd<8>)\"");
  refuses("rated(top_k(0.5)|top_k(0.5))", "c of rated(c) must have exactly one stage with an adjustable rate");
  refuses("rated(top_k(0.1),0)", "rated: dense_from must be in (0, 1], got 0");
  refuses("rated(top_k(0.1),0.5,often)", "rated takes 1 to 2 arguments, got");
  refuses("rated(ef(top_k(0.1)))", "\"ef(top_k(0.1))\" is not a stage");
  refuses("top_k<77>(0.1)", "top_k takes no <77>, got \"top_k<77>(0.1)\"");
  refuses("ef<3>(top_k(0.1))", "ef takes no <3>");
  refuses("ef(top_k(0.1),unverified,residual(0.5,1))", "the last of three arguments of ef must be unverified, got");
  refuses("ef(top_k(0.1),residual(0.5,1),rubbish)", "arguments of ef must be unverified, got \"rubbish\"");
  refuses("ef(top_k(0.1),twice)", "\"twice\" is not a feedback policy. ef takes (codec), (codec,policy), (codec,un");
  refuses("ef(top_k(0.1),momentum_correction(0.5,often))",
          "an option of momentum_correction must be nesterov, unmasked, clip_norm(most) or clip_value(most), got "
          "\"often\"");
  refuses("ef(top_k(0.1),momentum_correction(0.5,unmasked,masked))", "an option of momentum_correction must be");
  refuses("ef(top_k(0.1),momentum_correction(0.5,clip_norm(1),clip_value(2)))",
          "momentum_correction takes each option once, got");
  refuses("ef(top_k(0.1),momentum_correction(0.5,nesterov,nesterov))",
          "momentum_correction takes each option once, got");
  refuses("ef(top_k(0.1),momentum_correction(2))",
          "momentum_correction: momentum must be in [0, 1), also as a float, got 2");
  refuses("ef(top_k(0.1),two_sided(scaled_sign,twice))", "\"twice\" is not a feedback policy");
  refuses("ef(top_k(0.1),two_sided(ef(scaled_sign)))", "\"ef(scaled_sign)\" is not a stage");
}

TEST_CASE("a near miss is proposed") {
  CHECK(says("topk(0.01)", "\"topk(0.01)\" is not a stage; did you mean top_k? Stages are identity"));
  CHECK(says("Top-K(0.01)|qsgd<8>", "did you mean top_k?"));
  CHECK(says("power_sdg(2)", "did you mean power_sgd?"));
  CHECK(says("QSGD<8>", "did you mean qsgd?"));
  CHECK(says("EF(top_k(0.1))", "did you mean ef?"));
  CHECK(says("bipass(top_k(0.1))", "did you mean bypass?"));
  CHECK(says("ef(top_k(0.1),momentum_corection)", "is not a feedback policy; did you mean momentum_correction?"));
  CHECK(says("ef(qsgd<2>,unverifed)", "did you mean unverified?"));
  for (auto const* far : {"zip", "nonsense", "dgc", "rated(qsgd<8>)|identity"}) CHECK(!says(far, "did you mean"));
}

TEST_CASE("parse accepts every example in the lists of stages, exchanges and policies") {
  auto const check = [](auto const& methods) {
    for (auto const& method : methods) {
      CHECK(method.examples() > 0);
      for (std::size_t i = 0; i < method.examples(); ++i) {
        auto const text = std::string(method.texts[i]);
        CAPTURE(text);
        CHECK(pith::parse<float>(text).name() == text);
        CHECK(text.find(method.name()) != std::string::npos);
      }
    }
  };
  check(pith::stage_listings);
  check(pith::exchange_listings);
  check(pith::policy_listings);
}

TEST_CASE("feedback on a codec that does not contract is refused with the remedy") {
  auto const build = [](char const* text) { pith::make_state<float>(pith::seq, pith::parse<float>(text), {4096}); };
  CHECK_THROWS_WITH_AS(build("ef(top_k(0.01)|qsgd<2>)"),
                       doctest::Contains("must have delta above 0 at n = 4096, got -"), std::invalid_argument);
  CHECK_NOTHROW(build("ef(top_k(0.01)|damped(qsgd<2>))"));
  CHECK_NOTHROW(build("ef(top_k(0.01)|qsgd<2>,unverified)"));
}

TEST_CASE("whatever follows two_sided's codec makes steps") {
  auto comm = pith::self_communicator();
  for (auto const* worker :
       {"residual(0.9,1)", "residual<bfloat16>", "momentum_correction(0.9)", "ef21", "own_residual", "ef_sign(0.1)"}) {
    CAPTURE(worker);
    auto const codec =
        pith::parse<float>(std::string("ef(top_k(0.1),two_sided(top_k(0.1),").append(worker).append("))"));
    auto state = pith::make_state<float>(pith::seq, codec, {300});
    auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {300}, 1));
    auto ws = pith::workspace<>(pith::span<std::byte>(memory));
    auto g = std::vector<float>(300, 1);
    for (int step = 0; step < 3; ++step)
      CHECK_NOTHROW(pith::all_reduce_mean<float>(pith::seq, comm, codec, pith::span<float>(g), state, ws));
  }
}

TEST_CASE("a codec whose name could not be parsed again is refused") {
  auto text = std::string();
  for (int depth = 0; depth < 110; ++depth) text += "bypass(";
  text += "identity" + std::string(110, ')');
  CHECK_THROWS_WITH_AS(pith::parse<float>(text),
                       "pith::parse: the codec's name must have at most 1024 characters, got 1438",
                       std::invalid_argument);
}

TEST_CASE("a codec_text converts to the codec of each element type") {
  auto const codec = pith::any_codec<float, pith::seq_executor>(pith::codec_text{"ef(top_k(0.1)|qsgd<8>)"});
  CHECK(codec.name() == "ef(top_k(0.1)|qsgd<8>)");
  static_assert(std::convertible_to<pith::codec_text, pith::any_codec<pith::bfloat16, pith::seq_executor>>);
}
