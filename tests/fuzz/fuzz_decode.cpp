// tests/fuzz/fuzz_decode.cpp — every decoder on any payload. The first two bytes choose the codec, the rest is the payload.
#include <pith/comparison/adaptive_threshold.hpp>
#include <pith/comparison/inceptionn.hpp>
#include <pith/comparison/sketch_ml.hpp>
#include <pith/vector_quantize/hypersphere_quantizer.hpp>
#include <pith/vector_quantize/pca.hpp>
#include <pith/vector_quantize/product_quantizer.hpp>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>

#include "harness.hpp"
#include "support/bases.hpp"

namespace {

struct target {
  char const* codec;
  pith::shape dims;
};

constexpr target targets[] = {{"identity", {13}},
                              {"cast<half>", {17}},
                              {"cast<bfloat16>", {9}},
                              {"scaled_sign", {43}},
                              {"scaled_sign(8)", {43}},
                              {"two_magnitudes(8)", {43}},
                              {"chunk_top_k(3,64)|two_magnitudes(8)", {200}},
                              {"sign", {43}},
                              {"sign(zero)", {43}},
                              {"summed_sign", {43}},
                              {"summed_sign(zero)", {43}},
                              {"one_bit", {43}},
                              {"one_bit(8)", {43}},
                              {"one_bit(row)", {45, 5}},
                              {"one_bit(column)", {45, 5}},
                              {"terngrad", {43}},
                              {"summed_terngrad", {43}},
                              {"trits(terngrad(0))", {43}},
                              {"trits(qsgd<2>)", {41}},
                              {"natural<8>", {43}},
                              {"natural<9>", {43}},
                              {"stochastic_cast<bfloat16>", {17}},
                              {"eight_bit", {33}},
                              {"eight_bit(8,floor)", {43}},
                              {"qsgd<2>", {130}},
                              {"qsgd<3>", {35}},
                              {"qsgd<4>(3,64,max)", {71}},
                              {"qsgd<5>(15,0)", {19}},
                              {"qsgd<6>", {25}},
                              {"qsgd<7>", {27}},
                              {"qsgd<8>", {129}},
                              {"qsgd<9>", {21}},
                              {"qsgd<10>", {23}},
                              {"damped(qsgd<2>)", {29}},
                              {"damped(natural<9>)", {29}},
                              {"damped(trits(terngrad(0,8)))", {29}},
                              {"top_k(0.25)", {43}},
                              {"top_k(0.1)", {1}},
                              {"top_k(0.5)", {64}},
                              {"top_k(0.1)", {643}},
                              {"top_k(0.1,packed_indices)", {43}},
                              {"chunk_top_k(3,64)", {200}},
                              {"random_k(0.3)", {37}},
                              {"random_k(0.3,unbiased)", {37}},
                              {"random_k(0.3,none,own)", {37}},
                              {"random_blocks(0.3,4)", {37}},
                              {"random_blocks(0.3,4,unbiased)", {3}},
                              {"damped(random_k(0.5,unbiased))", {11}},
                              {"threshold(0.5,0.3)", {43}},
                              {"threshold(0.5,0.3,dense)", {43}},
                              {"redsync(0.1)", {43}},
                              {"redsync_mean(0.1)", {43}},
                              {"sidco(0.1)", {43}},
                              {"gaussian_k(0.1)", {43}},
                              {"hadamard(64)", {70}},
                              {"hadamard(64)", {2100}},
                              {"power_sgd(1)", {72, 8}},
                              {"power_sgd(3)", {144, 12}},
                              {"power_sgd(2)", {20, 4}},
                              {"power_sgd(1,4)", {72, 8}},
                              {"one_sided_power_sgd(1)", {72, 8}},
                              {"top_k(0.5)|qsgd<4>", {45}},
                              {"top_k(0.5)|top_k(0.5)|scaled_sign(8)", {77}},
                              {"random_k(0.5)|cast<half>", {31}},
                              {"power_sgd(1)|qsgd<8>", {72, 8}},
                              {"hadamard(64)|qsgd<4>", {70}},
                              {"random_blocks(0.5,4)|trits(qsgd<2>)", {45}},
                              {"two_shot(terngrad(0))", {43}},
                              {"ok_top_k(0.2)", {43}},
                              {"g_top_k(0.2)", {43}},
                              {"ring(qsgd<8>)", {43}},
                              {"hierarchical(qsgd<8>,ef(top_k(0.2)),2)", {43}},
                              {"ef(top_k(0.2)|qsgd<8>)", {50}},
                              {"ef(top_k(0.2),momentum_correction(0.9,nesterov))", {50}},
                              {"bypass(ef(scaled_sign),64)", {63}},
                              {"bypass(ef(scaled_sign),64)", {65}},
                              {"flat(ef(top_k(0.2)))", {43}},
                              {"identity", {0}},
                              {"identity", {5000}},
                              {"top_k(0.1)|qsgd<8>", {0}},
                              {"rated(top_k(0.25)|qsgd<4>)", {45}},
                              {"reduce_scatter(scaled_sign(8))", {43}}};

using openers = std::vector<std::unique_ptr<fuzz::opener>>;

template <class T>
void add(openers& to, fuzz::any_codec<T> codec, pith::shape const& dims) {
  to.push_back(std::make_unique<fuzz::opener_of<T>>(std::move(codec), dims));
}

/// Those that a text says. Factors of narrow elements are floats, which no quantizer of narrow elements takes.
template <class T>
void add_parsed(openers& to) {
  for (auto const& t : targets) {
    auto const is_of_factors = std::string_view(t.codec) == "power_sgd(1)|qsgd<8>";
    if (sizeof(T) > 2 || !is_of_factors) add<T>(to, pith::parse<T>(t.codec), t.dims);
  }
}

/// The stages of the registry that no target has.
template <class T>
void add_registered(openers& to) {
  for (auto const& method : pith::stage_listings) {
    for (std::size_t i = 0; i < method.examples(); ++i) {
      auto const is_same = [&](target const& t) { return t.codec == method.texts[i]; };
      if (std::none_of(std::begin(targets), std::end(targets), is_same))
        add<T>(to, pith::parse<T>(method.texts[i]), {43});
    }
  }
}

/// Those whose bases and codebooks were learnt, in slices that end short and in the order of a convolution.
template <class T>
void add_learnt(openers& to) {
  add<T>(to, pith::pca(support::basis_of(72, 12, {})), {70});
  add<T>(to, pith::pca(support::basis_of(72, 12, {})), {0});
  add<T>(to, pith::pca(support::basis_of(96, 8, pith::slice_order::oihw(4, 6, 4))), {96});
  add<T>(to, pith::pca(support::basis_of(72, 12, {})) | pith::qsgd<4>(), {72});
  add<T>(to, pith::product_quantizer<5>(pith::codebook::directions(4, 32, 3)), {43});
  add<T>(to, pith::hypersphere_quantizer<6>(pith::codebook::directions(4, 32, 3)), {43});
}

/// Those of a survey, and one with a header of its own before the payload, whose errors are a flag and NaN.
void add_others(openers& to) {
  static auto const flag = pith::error_flag(pith::seq);
  add<float>(to, pith::inceptionn(), {37});
  add<float>(to, pith::inceptionn(pith::byte_field::repaired, 0.4), {29});
  add<float>(to, pith::adaptive_threshold(0.2), {43});
  add<float>(to, pith::sketch_ml<6>(), {71});
  add<float>(to, pith::checked(pith::parse<float>("top_k(0.25)|qsgd<4>"), flag), {43});
  add<float>(to, pith::checked(pith::parse<float>("top_k(0.01)"), flag), {1500});
}

/// Ends the program if the registry has an exchange that no target names.
void require_targets() {
  for (auto const& method : pith::exchange_listings) {
    auto const names = [&](target const& t) {
      return std::string_view(t.codec).find(method.name()) != std::string_view::npos;
    };
    fuzz::require(std::any_of(std::begin(targets), std::end(targets), names), "a method of the registry has no target");
  }
}

openers make_openers() {
  require_targets();
  auto made = openers();
  add_others(made);
  add_parsed<float>(made);
  add_registered<float>(made);
  add_parsed<double>(made);
  add_registered<double>(made);
  add_parsed<pith::half>(made);
  add_registered<pith::half>(made);
  add_parsed<pith::bfloat16>(made);
  add_registered<pith::bfloat16>(made);
  add_learnt<float>(made);
  add_learnt<double>(made);
  add_learnt<pith::bfloat16>(made);
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static auto const all = make_openers();
  auto from = fuzz::input(data, size);
  auto& o = *all[from.take_below(all.size())];
  auto const frame = o.framed(from.take_bytes(size));
  fuzz::require(o.open(pith::span<std::byte const>(frame)), "a good frame was refused");
  return 0;
}
