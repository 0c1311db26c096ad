// benchmarks/catalogue.hpp — every method with its codec: the rows of docs/catalogue.md.
#pragma once

namespace bench {

/// A method at one setting.
struct method {
  char const* name;
  char const* codec;   ///< a text of parse, or name() of a codec in pith/comparison
  char const* family;  ///< quantization, sparsification, hybrid, low rank, transform or none
  char const* memory;  ///< whether GRACE uses error feedback by default; empty if GRACE lacks the method
};

/// One line per method.
inline constexpr method catalogue[] = {
    {"none", "identity", "none", "no"},
    {"half", "cast<half>", "quantization", "no"},
    {"bfloat16", "cast<bfloat16>", "quantization", ""},
    {"bfloat16, stochastic", "stochastic_cast<bfloat16>", "quantization", ""},
    {"1-bit SGD", "one_bit", "quantization", "yes"},
    {"1-bit SGD, columns", "one_bit(column)", "quantization", ""},
    {"signSGD", "sign", "quantization", "no"},
    {"signSGD, summed", "summed_sign", "quantization", ""},
    {"EF-signSGD", "scaled_sign", "quantization", "its own"},
    {"8-bit", "eight_bit", "quantization", "yes"},
    {"8-bit, floor", "eight_bit(0,floor)", "quantization", "yes"},
    {"block integers, 8 bits", "block_int<8>", "quantization", ""},
    {"block integers, 4 bits", "block_int<4>(32)", "quantization", ""},
    {"block integers, 2 bits", "block_int<2>(32,clip)", "quantization", ""},
    {"MXFP8", "mxfp8", "quantization", ""},
    {"MXFP6", "mxfp6", "quantization", ""},
    {"MXFP4", "mxfp4", "quantization", ""},
    {"MXINT8", "mxint8", "quantization", ""},
    {"NVFP4", "nvfp4", "quantization", ""},
    {"NVFP4, four or six", "nvfp4(four_or_six)", "quantization", ""},
    {"two magnitudes", "two_magnitudes", "quantization", ""},
    {"EDEN, 1 bit", "hadamard|eden<1>", "quantization", ""},
    {"EDEN, 2 bits", "hadamard|eden<2>", "quantization", ""},
    {"EDEN, 4 bits", "hadamard|eden<4>", "quantization", ""},
    {"natural", "natural<8>", "quantization", "yes"},
    {"natural, exact", "natural<9>", "quantization", ""},
    {"TernGrad", "terngrad", "quantization", "no"},
    {"TernGrad, trits", "trits(terngrad)", "quantization", ""},
    {"TernGrad, summed", "summed_terngrad", "quantization", ""},
    {"QSGD, 8 bits", "qsgd<8>", "quantization", "no"},
    {"QSGD, 4 bits", "qsgd<4>", "quantization", "no"},
    {"QSGD, damped", "damped(qsgd<2>)", "quantization", ""},
    {"INCEPTIONN", "inceptionn(reference)", "quantization", "no"},
    {"INCEPTIONN, repaired", "inceptionn(repaired)", "quantization", ""},
    {"rotation", "hadamard", "transform", ""},
    {"rotation, QSGD", "hadamard|qsgd<4>", "quantization", ""},
    {"top-k", "top_k(0.01)", "sparsification", "yes"},
    {"top-k, packed indices", "top_k(0.01,packed_indices)", "sparsification", ""},
    {"top-k of chunks", "chunk_top_k(64,4096)", "sparsification", ""},
    {"threshold", "threshold(2.5,0.05)", "sparsification", "yes"},
    {"threshold, dense", "threshold(2.5,0.05,dense)", "sparsification", "yes"},
    {"RedSync", "redsync(0.01)", "sparsification", ""},
    {"RedSync, means", "redsync_mean(0.01)", "hybrid", ""},
    {"SIDCo", "sidco(0.01)", "sparsification", ""},
    {"SIDCo, gamma", "sidco(0.01,gamma)", "sparsification", ""},
    {"Gaussian-k", "gaussian_k(0.01)", "sparsification", ""},
    {"random-k", "random_k(0.01)", "sparsification", "yes"},
    {"random-k, unbiased", "random_k(0.01,unbiased)", "sparsification", ""},
    {"random-k, own", "random_k(0.01,unbiased,own)", "sparsification", ""},
    {"random blocks", "random_blocks(0.01,64)", "sparsification", ""},
    {"adaptive threshold", "adaptive_threshold(0.01)", "hybrid", "yes"},
    {"SketchML", "sketch_ml<6>", "hybrid", "yes"},
    {"top-k, QSGD", "top_k(0.01)|qsgd<8>", "hybrid", ""},
    {"top-k of chunks, two magnitudes", "chunk_top_k(64,4096)|two_magnitudes", "hybrid", ""},
    {"top-k, packed indices, QSGD", "top_k(0.01,packed_indices)|qsgd<8>", "hybrid", ""},
    {"PowerSGD", "power_sgd(4)", "low rank", "its own"},
    {"PowerSGD, one-sided", "one_sided_power_sgd(4)", "low rank", ""},
};

}  // namespace bench
