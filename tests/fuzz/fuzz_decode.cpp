// tests/fuzz/fuzz_decode.cpp — every decoder on any payload. The first byte chooses the codec, the rest is the payload.
#include <pith/survey/adaptive_threshold.hpp>
#include <pith/survey/inceptionn.hpp>
#include <pith/survey/sketch_ml.hpp>

#include "harness.hpp"

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
                              {"identity", {0}},
                              {"top_k(0.1)|qsgd<8>", {0}}};

/// Those that no text says, and one with a header of its own before the payload, whose errors are a flag and NaN.
std::vector<fuzz::opener> make_openers() {
  static auto const flag = pith::error_flag(pith::seq);
  auto made = std::vector<fuzz::opener>();
  for (auto const& t : targets) made.emplace_back(pith::parse<float>(t.codec), t.dims);
  made.emplace_back(pith::inceptionn(), pith::shape{37});
  made.emplace_back(pith::inceptionn(pith::byte_field::repaired, 0.4), pith::shape{29});
  made.emplace_back(pith::adaptive_threshold(0.2), pith::shape{43});
  made.emplace_back(pith::sketch_ml<6>(), pith::shape{71});
  made.emplace_back(pith::checked(pith::parse<float>("top_k(0.25)|qsgd<4>"), flag), pith::shape{43});
  return made;
}

/// A frame of this payload, cut or filled up with zeros, that the codec must accept. The step is any number.
std::vector<std::byte> framed(fuzz::opener const& o, pith::span<std::byte const> payload) {
  auto h = fuzz::wire::header{o.codec().name(), pith::element_kind::f32, o.dims(), 0, {0x5eed, 1, 0}, 0, 0};
  h.payload_bytes = pith::payload_bytes<float>(o.codec(), o.dims());
  auto frame = std::vector<std::byte>(h.bytes() + h.payload_bytes);
  auto const size = std::min<std::size_t>(payload.size(), h.payload_bytes);
  if (size > 0) std::memcpy(frame.data() + h.bytes(), payload.data(), size);
  h.payload_checksum = fuzz::wire::checksum(pith::span<std::byte const>(frame).subspan(h.bytes()));
  h.step = h.payload_checksum;
  fuzz::wire::write_header(h, pith::span<std::byte>(frame));
  return frame;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static auto openers = make_openers();
  if (size == 0) return 0;
  auto& o = openers[data[0] % openers.size()];
  auto const frame = framed(o, {reinterpret_cast<std::byte const*>(data + 1), size - 1});
  fuzz::require(o.open(pith::span<std::byte const>(frame)), "a good frame was refused");
  return 0;
}
