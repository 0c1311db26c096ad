// examples/train/listed.hpp — the codecs of --list: those of the registry, hybrids, and those that are kept for reference.
#pragma once

#include <pith/parse.hpp>

#include <range/v3/algorithm/find.hpp>

#include <iterator>
#include <string_view>
#include <vector>

namespace train {

struct codec_word {
  char const *example, *meaning;
  float rate = 1, momentum = 1;  ///< as in method
};

/// The learning rates and momenta of codecs whose steps are signs, or whose feedback has a momentum.
inline constexpr struct {
  std::string_view example;
  float rate, momentum;
} tuned[] = {{"sign", 0.01f, 0},
             {"summed_sign", 0.01f, 0},
             {"ef(sign,signum_momentum(0.9))", 0.01f, 0},
             {"ef(top_k(0.01),momentum_correction(0.9))", 1, 0}};

/// Exchanges that this program cannot use: its communicators form no groups of ranks, and each of its ranks needs whole
/// gradients.
constexpr bool is_left_out(std::string_view method) { return method == "hierarchical" || method == "reduce_scatter"; }

inline codec_word word_of(char const* example, char const* meaning) {
  auto const* const by = ranges::find(tuned, example, [](auto const& t) { return t.example; });
  if (by == std::end(tuned)) return {example, meaning};
  return {example, meaning, by->rate, by->momentum};
}

inline std::vector<codec_word> codec_words() {
  auto words = std::vector<codec_word>();
  auto const add = [&](auto const& listings) {
    for (auto const& method : listings) {
      if (!is_left_out(method.name())) words.push_back(word_of(method.texts[0].data(), method.meaning.data()));
    }
  };
  add(pith::stage_listings);
  words.push_back(word_of("hadamard|qsgd<4>", "a rotation before a quantizer"));
  words.push_back(word_of("top_k(0.01)|qsgd<8>", "the second codec compresses the values of the first"));
  add(pith::exchange_listings);
  add(pith::policy_listings);
  words.push_back(word_of("inceptionn(reference)", "32, 16, 8 or 0 bits by magnitude; also inceptionn(repaired)"));
  words.push_back(word_of("adaptive_threshold(0.01)", "the 1 % of largest magnitude of each sign, as their means"));
  words.push_back(word_of("sketch_ml<6>", "64 buckets between quantiles, and their means"));
  return words;
}

/// The end of --list.
inline constexpr auto not_by_text =
    R"(inceptionn, adaptive_threshold and sketch_ml are available here only as listed; in C++ they are in pith/comparison/.
Only in C++: checked(codec, flag), pca(basis), warm_up and other rate controllers, and user-defined stages.
)";

}  // namespace train
