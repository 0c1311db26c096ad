// tests/wire/make_golden.cpp — writes the golden frames of this wire version. Run by hand, once for a stage:
//
//     make_golden DIRECTORY
//
// and copy the files of the stage to tests/data/wire/v1. This folder has no frames whose payloads are those of version 0.
#include <pith/wire/frame.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "support/parsed.hpp"
#include "support/vectors.hpp"

namespace {

struct golden {
  char const* file;
  char const* codec;
  pith::shape dims;
  int steps = 1;
};

void write_file(std::string const& path, void const* data, std::size_t bytes) {
  auto file = std::ofstream(path, std::ios::binary);
  file.write(static_cast<char const*>(data), static_cast<std::streamsize>(bytes));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

/// FILE.in has the gradients of all steps, FILE.frame the last one sealed, FILE.out its decoded tensor.
template <class In>
void write_as(std::string const& path, golden const& g, std::vector<double> const& values) {
  auto const codec = pith::parse<In>(g.codec);
  auto state = pith::make_state<In>(pith::seq, codec, g.dims, {0x123456789abcdef0u, 0xabcdefu, 2});
  auto memory = std::vector<std::byte>(pith::wire::workspace_bytes<In>(pith::seq, codec, g.dims));
  auto ws = pith::workspace<>(memory);
  auto const all = support::narrow<In>(values);
  auto frame = std::vector<std::byte>(pith::wire::frame_bytes<In>(codec, g.dims));
  for (int step = 0; step < g.steps; ++step) {
    auto const x = pith::span<In const>(all).subspan(static_cast<std::size_t>(step) * g.dims.n, g.dims.n);
    pith::wire::seal(pith::seq, codec, x, pith::span<std::byte>(frame), state, ws);
  }
  auto decoded = std::vector<In>(g.dims.n);
  pith::wire::open(pith::seq, codec, frame, decoded, state, ws);
  write_file(path + ".in", all.data(), all.size() * sizeof(In));
  write_file(path + ".frame", frame.data(), frame.size());
  write_file(path + ".out", decoded.data(), decoded.size() * sizeof(In));
}

/// Normal numbers; for codecs of single elements also NaN, infinity and the ends of ranges.
std::vector<double> values_for(golden const& g) {
  auto values = support::normal_vector(g.dims.n * static_cast<std::size_t>(g.steps), g.dims.n);
  auto const codec = std::string(g.codec);
  if (codec == "identity" && g.dims.n > 4) {
    values = {support::infinity, -0.0, -support::infinity, 1e-40, 6e4};
    values.resize(g.dims.n, 0.1);
  }
  if (codec.rfind("natural", 0) == 0 || codec.rfind("stochastic_cast", 0) == 0) {
    auto const odd = {support::not_a_number, support::infinity, -support::infinity, 0.0, -0.0, -1e-40, 3e38, -6e4};
    std::copy(odd.begin(), odd.end(), values.begin());
  }
  return values;
}

template <class In>
void write_all(std::string const& directory, std::initializer_list<golden> list) {
  for (auto const& g : list) write_as<In>(directory + "/" + g.file, g, values_for(g));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fputs("usage: make_golden DIRECTORY\n", stderr), 2;
  auto const to = std::string(arguments[1]);
  write_all<float>(to, {{"identity_float", "identity", {7}},
                        {"identity_empty", "identity", {0}},
                        {"cast_half", "cast<half>", {9}},
                        {"scaled_sign", "scaled_sign", {13}},
                        {"qsgd8", "qsgd<8>", {129}},
                        {"qsgd4_max", "qsgd<4>(3,64,max)", {71}},
                        {"qsgd5_whole", "qsgd<5>(15,0)", {19}},
                        {"qsgd_empty", "qsgd<8>", {0}},
                        {"top_k", "top_k(0.1)", {43}},
                        {"top_k_one", "top_k(0.5)", {1}},
                        {"chunk_top_k", "chunk_top_k(3,100)", {1043}},
                        {"top_k_long", "top_k(0.1)", {1043}},
                        {"top_k_packed", "top_k(0.1,packed_indices)", {1043}},
                        {"random_k", "random_k(0.2)", {37}, 3},
                        {"threshold", "threshold(1)", {41}},
                        {"threshold_over", "threshold(0.5,0.1)", {50}},
                        {"threshold_dense", "threshold(2,0.25,dense)", {47}},
                        {"threshold_dense_over", "threshold(0.5,0.25,dense)", {49}},
                        {"redsync", "redsync(0.1)", {50}},
                        {"redsync_mean", "redsync_mean(0.1)", {50}, 2},
                        {"sidco", "sidco(0.1)", {60}, 2},
                        {"sidco_gamma", "sidco(0.2,gamma,2)", {60}},
                        {"gaussian_k", "gaussian_k(0.1)", {50}},
                        {"chain_sidco_qsgd", "sidco(0.1,pareto)|qsgd<8>", {60}},
                        {"power_sgd1", "power_sgd(1)", {72, 8}},
                        {"power_sgd_exact", "power_sgd(4)", {20, 4}},
                        {"power_sgd_rate", "power_sgd(1,4.5)", {72, 8}},
                        {"one_sided_power_sgd", "one_sided_power_sgd(1)", {80, 8}},
                        {"chain_top_k_qsgd", "top_k(0.25)|qsgd<8>", {131}},
                        {"chain_random_k_cast", "random_k(0.25)|cast<half>", {50}},
                        {"chain_power_sgd_qsgd", "power_sgd(1)|qsgd<6>(31,16)", {88, 8}},
                        {"chain_hadamard64_qsgd", "hadamard(64)|qsgd<4>", {100}, 2},
                        {"chain_hadamard_qsgd", "hadamard|qsgd<8>", {300}},
                        {"chain_random_k_qsgd", "random_k(0.5)|qsgd<4>", {47}},
                        {"bypass_dense", "bypass(ef(scaled_sign),64)", {63}, 2},
                        {"bypass_through", "bypass(ef(scaled_sign),64)", {65}, 2},
                        {"flat", "flat(ef(top_k(0.2)))", {33}, 2},
                        {"one_bit", "one_bit", {21}},
                        {"one_bit_row", "one_bit(row)", {45, 5}},
                        {"sign", "sign", {19}},
                        {"summed_sign_zero", "summed_sign(zero)", {9}},
                        {"terngrad", "terngrad", {45}},
                        {"summed_terngrad", "summed_terngrad", {22}},
                        {"trits_terngrad", "trits(terngrad(0,16))", {43}},
                        {"natural8", "natural<8>", {27}},
                        {"natural9", "natural<9>", {21}},
                        {"stochastic_cast", "stochastic_cast<bfloat16>", {27}},
                        {"eight_bit", "eight_bit", {50}},
                        {"block_int8", "block_int<8>", {261}},
                        {"block_int2_clip", "block_int<2>(16,clip)", {45}},
                        {"mxfp8", "mxfp8", {77}},
                        {"mxfp4_floor", "mxfp4(floor)", {45}},
                        {"nvfp4", "nvfp4", {77}},
                        {"eden4", "hadamard(64)|eden<4>(64)", {77}},
                        {"eden8", "eden<8>", {300}},
                        {"two_magnitudes", "two_magnitudes(16)", {45}},
                        {"chain_chunk_top_k_two_magnitudes", "chunk_top_k(8,64)|two_magnitudes", {1043}},
                        {"random_blocks", "random_blocks(0.3,4)", {50}, 2},
                        {"random_k_own", "random_k(0.2,none,own)", {37}, 2},
                        {"damped_natural", "damped(natural<8>)", {13}},
                        {"chain_random_blocks_trits", "random_blocks(0.5,4,unbiased)|trits(qsgd<2>)", {70}},
                        {"ef_one_bit", "ef(one_bit(8))", {27}, 3},
                        {"ef_ef_sign", "ef(scaled_sign,ef_sign(0.5))", {21}, 2},
                        {"ef_momentum", "ef(top_k(0.2),momentum_correction(0.9))", {33}, 3},
                        {"rated", "ef(rated(top_k(0.2)|qsgd<8>,0.5))", {33}, 2},
                        {"rated_dense", "rated(random_k(0.2),dense)", {21}, 2},
                        {"two_shot", "two_shot(terngrad(0))", {33}},
                        {"reduce_scatter", "reduce_scatter(scaled_sign(8))", {33}},
                        {"ok_top_k", "ok_top_k(0.2)", {37}},
                        {"g_top_k", "g_top_k(0.2)", {37}},
                        {"ring", "ring(qsgd<8>)", {33}},
                        {"hierarchical", "hierarchical(qsgd<8>,ef(top_k(0.2)),2)", {33}}});
  write_all<double>(to, {{"identity_double", "identity", {5}},
                         {"cast_bfloat16", "cast<bfloat16>", {7}},
                         {"scaled_sign8_double", "scaled_sign(8)", {21}},
                         {"qsgd10_double", "qsgd<10>", {17}},
                         {"top_k_double", "top_k(0.25)", {9}},
                         {"hadamard64_double", "hadamard(64)", {65}},
                         {"chain_double", "top_k(0.5)|top_k(0.5)|damped(qsgd<2>)", {45}},
                         {"one_bit_column_double", "one_bit(column)", {35, 5}},
                         {"natural8_double", "natural<8>", {15}},
                         {"stochastic_cast_double", "damped(stochastic_cast<bfloat16>)", {15}},
                         {"eight_bit_floor_double", "eight_bit(8,floor)", {21}},
                         {"block_int4_double", "block_int<4>(32)", {77}},
                         {"mxfp6_double", "mxfp6(e3m2)", {37}},
                         {"mxint8_double", "mxint8", {40}},
                         {"nvfp4_double", "nvfp4(four_or_six)", {37}},
                         {"eden1_double", "eden<1>(16,unbiased)", {37}},
                         {"two_magnitudes_double", "two_magnitudes(8)", {29}},
                         {"sign_zero_double", "sign(zero)", {10}},
                         {"gaussian_k_fine_double", "gaussian_k(0.1,fine)", {50}},
                         {"redsync_mean_double", "redsync_mean(0.1)", {30}}});
  write_all<pith::half>(to, {{"identity_half", "identity", {6}},
                             {"qsgd2_half", "qsgd<2>", {33}},
                             {"random_k_unbiased_half", "random_k(0.3,unbiased)", {29}},
                             {"chain_threshold_hadamard_half", "threshold(1,0.5)|hadamard(64)|qsgd<6>", {31}},
                             {"power_sgd2_half", "power_sgd(2)", {180, 12}},
                             {"ef_half", "ef(top_k(0.2)|qsgd<4>)", {61}, 3},
                             {"block_int2_half", "block_int<2>(8)", {29}},
                             {"mxfp6_half", "mxfp6(e2m3,rceil)", {33}},
                             {"nvfp4_half", "nvfp4", {33}},
                             {"eden2_half", "eden<2>(8)", {29}},
                             {"two_magnitudes_half", "two_magnitudes", {77}},
                             {"natural9_half", "natural<9>", {17}},
                             {"terngrad_half", "terngrad(2,16)", {33}},
                             {"redsync_half", "ef(redsync(0.1))", {50}, 2},
                             {"redsync_mean_half", "redsync_mean(0.2)", {29}},
                             {"random_k_own_half", "random_k(0.3,unbiased,own)", {29}}});
  write_all<pith::bfloat16>(to, {{"identity_bfloat16", "identity", {6}},
                                 {"qsgd3_bfloat16", "qsgd<3>", {15}},
                                 {"damped_identity", "damped(identity)", {3}},
                                 {"damped_bfloat16", "damped(random_k(0.4,unbiased))", {11}},
                                 {"ef_bfloat16", "ef(qsgd<7>,residual(0.9,1))", {23}, 2},
                                 {"eight_bit_bfloat16", "eight_bit(16)", {23}},
                                 {"block_int6_bfloat16", "block_int<6>(0)", {19}},
                                 {"mxfp8_bfloat16", "mxfp8(e5m2)", {35}},
                                 {"mxfp4_bfloat16", "mxfp4", {19}},
                                 {"summed_sign_bfloat16", "summed_sign", {11}},
                                 {"damped_terngrad_bfloat16", "damped(trits(terngrad(0)))", {20}},
                                 {"damped_random_blocks_bfloat16", "damped(random_blocks(0.4,2,unbiased))", {27}}});
}
