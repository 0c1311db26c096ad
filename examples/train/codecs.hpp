// examples/train/codecs.hpp — the codecs that are compared by default, and the words that others are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace train {

/// What the others are measured by.
inline constexpr auto dense_float = "identity", dense_bfloat16 = "cast<bfloat16>";

inline std::vector<std::string> default_codecs() {
  return {dense_float,
          dense_bfloat16,
          "ef(scaled_sign)",
          "ef(top_k(0.01))",
          "top_k(0.01)",
          "ef(random_k(0.1))",
          "ef(qsgd<8>)",
          "ef(power_sgd(2))",
          "ef(top_k(0.01)|qsgd<8>)",
          "ef(random_k(0.1)|cast<half>)"};
}

struct codec_word {
  std::string_view example, meaning;
};

inline constexpr codec_word codec_words[] = {
    {"identity", "every element as it is"},
    {"cast<bfloat16>", "every element in 16 bits; also cast<half>"},
    {"scaled_sign", "signs, and the mean magnitude of the tensor; scaled_sign(n): of each bucket of n"},
    {"qsgd<4>", "random rounding to 4 bits, 2 to 10, a bucket of 128; qsgd<4>(levels, bucket, l2 or max)"},
    {"top_k(0.01)", "the 1 % of largest magnitude"},
    {"random_k(0.1)", "a random 10 %, the same on all ranks; random_k(0.1,unbiased): scaled by 10"},
    {"power_sgd(2)", "a product of two thin matrices of rank 2"},
    {"damped(qsgd<4>)", "an unbiased codec, scaled so that it contracts"},
    {"ef(scaled_sign)", "error feedback: what was not sent is added to the next gradient"},
    {"top_k(0.01)|qsgd<8>", "the second codec compresses what the first sends"},
    {"bypass(top_k(0.01),1024)", "tensors of fewer than 1,024 elements as they are"},
};

}  // namespace train
