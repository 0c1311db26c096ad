// examples/train/codecs.hpp — the codecs that are compared by default, and the codecs of --list.
#pragma once

#include <string>
#include <vector>

namespace train {

/// The references of the comparison.
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

/// The codecs of executors other than seq.
inline std::vector<std::string> few_codecs() {
  return {dense_float, "ef(scaled_sign)", "ef(power_sgd(2))", "ef(top_k(0.01)|qsgd<8>)"};
}

/// The codecs that controllers are compared with: dense, and the two ends of their ladder.
inline std::vector<std::string> codecs_beside_controllers() {
  return {dense_bfloat16, "ef(top_k(0.1))", "ef(top_k(0.001))"};
}

struct codec_word {
  char const *example, *meaning;
  float rate = 1, momentum = 1;  ///< as in method
};

inline constexpr codec_word codec_words[] = {
    {"identity", "every element uncompressed"},
    {"cast<bfloat16>", "every element in 16 bits; also cast<half>"},
    {"scaled_sign", "signs, and the mean magnitude of the tensor; scaled_sign(n): of each bucket of n"},
    {"one_bit", "signs, and a mean for each sign; one_bit(n), one_bit(row), one_bit(column): of buckets, rows, columns"},
    {"sign", "signs; ranks receive the majority's sign; sign(zero): 0 in a tie", 0.01f, 0},
    {"summed_sign", "the same as a sum of bytes", 0.01f, 0},
    {"terngrad", "-1, 0 and 1 times the largest; terngrad(sigma, bucket): clipped at sigma deviations, 0: unclipped"},
    {"summed_terngrad", "times the largest of all ranks, as a sum of bytes"},
    {"trits(terngrad(0))", "five ternary symbols per byte; also trits(qsgd<2>)"},
    {"natural<8>", "random rounding to powers of two; natural<9>: all exponents"},
    {"eight_bit", "128 points of six decades; eight_bit(bucket, nearest or floor)"},
    {"qsgd<4>", "random rounding to 4 bits, 2 to 10, in buckets of 128; qsgd<4>(levels, bucket, l2 or max)"},
    {"inceptionn(reference)", "32, 16, 8 or 0 bits by magnitude; also inceptionn(repaired)"},
    {"top_k(0.01)", "the 1 % of largest magnitude"},
    {"threshold(0.01)",
     "magnitudes from 0.01 on; threshold(tau, capacity, keep or dense): up to a share, then keep the rest or send all"},
    {"redsync(0.01)", "1 % to 2 % of largest magnitude, by a search for the threshold"},
    {"redsync_mean(0.01)", "the same for alternating signs, as their mean"},
    {"sidco(0.01)", "about 1 %, by a fit of the tail; sidco(density, exponential, pareto or gamma, stages)"},
    {"gaussian_k(0.01)", "about 1 %, by mean and deviation; gaussian_k(density, coarse or fine)"},
    {"random_k(0.1)", "a random 10 %, the same on all ranks; random_k(0.1, none or unbiased, shared or own)"},
    {"random_blocks(0.1,16)", "runs of 16; random_blocks(0.1, 16, none or unbiased)"},
    {"adaptive_threshold(0.01)", "the 1 % of largest magnitude of each sign, as their means"},
    {"sketch_ml<6>", "64 buckets between quantiles, and their means"},
    {"power_sgd(2)", "a product of two thin matrices of rank 2; (rank,min_rate)"},
    {"one_sided_power_sgd(2)", "the same in one sum, of one matrix"},
    {"hadamard|qsgd<4>", "a rotation before a quantizer; hadamard(tile)"},
    {"damped(qsgd<4>)", "an unbiased codec, scaled so that it contracts"},
    {"top_k(0.01)|qsgd<8>", "the second codec compresses the values of the first"},
    {"bypass(top_k(0.01),1024)", "tensors of fewer than 1,024 elements uncompressed"},
    {"two_shot(qsgd<8>)", "each rank adds up a part of the tensor; two_shot(a, b): b for the mean"},
    {"ring(qsgd<8>)", "segments are added up along a ring"},
    {"ok_top_k(0.01)", "the largest 1 % of the sums of each rank's largest 1 %"},
    {"g_top_k(0.01)", "pairs of ranks merge their largest 1 %, until all have the same"},
    {"ef(scaled_sign)", "error feedback: adds the residual to the next gradient"},
    {"ef(qsgd<4>,residual(0.9,1))", "a residual times 0.9; ef(codec, unverified): for a codec without a proved bound"},
    {"ef(top_k(0.01),own_residual)", "the residual against a rank's own payload"},
    {"ef(top_k(0.01),mean_residual)", "the residual against the mean"},
    {"ef(top_k(0.01),no_feedback)", "no feedback"},
    {"ef(scaled_sign,ef_sign(0.02))", "a residual in units of the weights' step"},
    {"ef(top_k(0.01),ef21(0.9))", "sends the difference from an estimate, with a running mean"},
    {"ef(sign,signum_momentum(0.9))", "signs of a momentum", 0.01f, 0},
    {"ef(top_k(0.01),momentum_correction(0.9))", "a momentum of the residual; (0.9, nesterov, unmasked, clip_norm(1))", 1,
     0},
    {"ef(scaled_sign,two_sided(scaled_sign))", "also compresses the mean, with feedback"},
};

/// The end of --list.
inline constexpr auto not_by_text =
    R"(inceptionn, adaptive_threshold and sketch_ml are available here only as listed; in C++ they are in pith/reference/.
Only in C++: checked(codec, flag), pca(basis), warm_up and other rate controllers, and user-defined stages.
)";

}  // namespace train
