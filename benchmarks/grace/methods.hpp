// benchmarks/grace/methods.hpp — GRACE's methods as it evaluates them: default memory, settings and optimizer.
#pragma once

#include "../subject.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace grace {

/// A method in training.
struct method {
  char const* name;
  char const* codec;      ///< for codec_of
  char const* family;     ///< none, quantization, sparsification, hybrid or low rank
  float rate = 1;         ///< times the learning rate: a sign without a scale is a step of 1
  float momentum = 0.9f;  ///< the optimizer's; 0 where the memory has its own
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

/// What the others are measured by, in this order.
inline constexpr method const& dense_float = methods[0];
inline constexpr method const& dense_bfloat16 = methods[1];

/// The codec of a method; no parser knows those of pith/survey.
inline pith::any_codec<float, pith::seq_executor> codec_of(std::string_view text) {
  if (text == "ef(adaptive_threshold(0.01))") return pith::error_feedback(pith::adaptive_threshold(0.01));
  if (text == "ef(sketch_ml<6>,unverified)") return pith::error_feedback(pith::sketch_ml<6>(), pith::unverified);
  return bench::codec_of<float, pith::seq_executor>(std::string(text));
}

/// Whether a method of this name was asked for: all were where none is named.
template <class Names>
bool is_wanted(Names const& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace grace
