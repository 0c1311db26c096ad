// examples/train/methods.hpp — GRACE's methods as it evaluates them: default memory, settings and optimizer.
#pragma once

namespace train {

/// A codec, and the settings of its training.
struct method {
  char const* name;
  char const* codec;   ///< for codec_of
  char const* family;  ///< none, quantization, sparsification, hybrid or low rank
  float rate = 1;      ///< times the learning rate: a sign without a scale is a step of 1
  float momentum = 1;  ///< times the optimizer's; 0 if the memory has momentum
};

inline constexpr method methods[] = {
    {"none", "identity", "none"},
    {"bfloat16", "cast<bfloat16>", "none"},
    {"8-bit", "ef(eight_bit)", "quantization"},
    {"1-bit SGD", "ef(one_bit)", "quantization"},
    {"signSGD", "sign", "quantization", 0.01f, 0},
    {"SIGNUM", "ef(sign,signum_momentum(0.9))", "quantization", 0.01f, 0},
    {"EF-signSGD", "ef(scaled_sign,ef_sign(0.02))", "quantization"},
    {"QSGD", "qsgd<8>", "quantization"},
    {"TernGrad", "terngrad", "quantization"},
    {"natural", "ef(natural<8>)", "quantization"},
    {"INCEPTIONN", "inceptionn(reference)", "quantization"},
    {"random-k", "ef(random_k(0.01))", "sparsification"},
    {"top-k", "ef(top_k(0.01))", "sparsification"},
    {"threshold", "ef(threshold(0.01,0.25))", "sparsification"},
    {"DGC", "ef(top_k(0.01),momentum_correction(0.9))", "sparsification", 1, 0},
    {"adaptive threshold", "ef(adaptive_threshold(0.01))", "hybrid"},
    {"SketchML", "ef(sketch_ml<6>,unverified)", "hybrid"},
    {"PowerSGD", "ef(power_sgd(1))", "low rank"},
};

}  // namespace train
