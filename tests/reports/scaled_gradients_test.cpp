// tests/reports/scaled_gradients_test.cpp — ranges: gradients times 2^k give means and residuals times 2^k.
//
// Norms, warm starts and scales must neither overflow nor underflow if the result does not (pytorch/pytorch#193006).
#include <pith/collective/g_top_k.hpp>
#include <pith/collective/ok_top_k.hpp>
#include <pith/comm/threads.hpp>
#include <pith/comparison/adaptive_threshold.hpp>
#include <pith/comparison/sketch_ml.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/mean_norm.hpp>
#include <pith/feedback/clipping.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/vector_quantize/k_means.hpp>
#include <pith/vector_quantize/pca_basis.hpp>
#include <pith/vector_quantize/product_quantizer.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"
#include "support/registered_texts.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::uint64_t scaled_rows = 32, scaled_columns = 48, scaled_matrix = scaled_rows * scaled_columns;
std::vector<pith::tensor_spec> const scaled_tensors = {{"low rank", {scaled_matrix, scaled_rows}},
                                                       {"matrix", {scaled_matrix, scaled_rows}},
                                                       {"vector", {1000}},
                                                       {"equal", {1000}},
                                                       {"huge entry", {1000}}};
constexpr int scaled_steps = 3;

/// A number in [-1, 1) with 12 significant bits.
double next_number(std::uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (static_cast<double>(state >> 52) - 2048) / 2048;
}

/// The gradients of all tensors. Their largest magnitudes are in [1/4, 1].
std::vector<double> unscaled_gradient(unsigned rank, int step) {
  auto fixed = std::uint64_t{5}, own = std::uint64_t{77} + rank * 1000 + static_cast<unsigned>(step) * 31;
  auto factors = std::vector<double>(2 * (scaled_rows + scaled_columns));
  for (auto& v : factors) v = next_number(fixed);
  auto g = std::vector<double>();
  auto const turn = (8.0 - step + rank) / 16;
  for (std::uint64_t i = 0; i < scaled_rows; ++i) {
    auto const *const p = &factors[2 * i], *const q = &factors[2 * scaled_rows];
    for (std::uint64_t j = 0; j < scaled_columns; ++j) g.push_back(turn * (p[0] * q[2 * j] + p[1] * q[2 * j + 1] / 2));
  }
  for (std::uint64_t i = 0; i < scaled_matrix + 1000; ++i) g.push_back(next_number(own));
  g.insert(g.end(), 1000, 0.75 - 0.0625 * step);
  for (int i = 0; i < 1000; ++i) g.push_back(next_number(own) / 1024);
  g[g.size() - 500 + rank] = 0.96875;
  return g;
}

template <class In>
std::vector<In> times_power(std::vector<In> x, int k) {
  for (auto& v : x) v = std::ldexp(v, k);
  return x;
}

/// The means of each step on rank 0, then the feedback states of its tensors.
template <class In>
std::vector<std::vector<In>> outcomes_of(auto const& codec, int k) {
  auto all = std::vector<std::vector<In>>();
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto ex = pith::make_exchange<In>(pith::seq, comm, scaled_tensors, codec, {.seed = 3});
    auto const is_first = comm.rank() == 0;
    for (int step = 0; step < scaled_steps; ++step) {
      auto const unscaled = unscaled_gradient(comm.rank(), step);
      auto g = times_power(std::vector<In>(unscaled.begin(), unscaled.end()), k);
      ex.all_reduce_mean(pith::span<In>(g));
      if (is_first) all.push_back(g);
    }
    if constexpr (requires { ex.fed_back(0); }) {
      for (std::size_t t = 0; is_first && t < scaled_tensors.size(); ++t) all.push_back(ex.fed_back(t));
    }
  });
  return all;
}

/// The range of k in which a method's result scales with the gradient. The method's header describes this range.
struct range_row {
  std::string_view part;  ///< a part of the codec's text
  int least, most;        ///< the smallest and the largest k
  int min_double, max_double;
  char const* reason;
};

constexpr int no_least = -2000, no_most = 2000;

constexpr range_row range_rows[] = {
    {"ef(sign,unverified)", 0, 0, 0, 0, "the residual of a sign is not in units of the gradient"},
    {"cast<half>", 0, 0, 0, 0, "the range of half"},
    {"cast<bfloat16>", no_least, no_most, -100, 100, "the range of bfloat16"},
    {"two_magnitudes", no_least, no_most, -100, 100, "the range of bfloat16"},
    {"block_int", no_least, 123, -100, 100, "scales are bfloat16, and are rounded up"},
    {"residual<bfloat16>", -83, 123, -100, 100, "the range of bfloat16"},
    {"mx", no_least, 123, -100, 100, "a block's scale is a power of two in [2^-127, 2^127]"},
    {"four_or_six", no_least, no_most, -100, 100, "squared errors are compared in the range of float"},
    {"natural<8>", -83, 0, 0, 0, "2^-108 to 2^18"},
    {"natural<9>", no_least, no_most, -100, 100, "2^-126 to 2^127"},
    {"terngrad(0", no_least, no_most, no_least, no_most, "no squares"},
    {"terngrad", no_least, 123, -400, 400, "squares of doubles; a residual grows"},
    {"gaussian_k", no_least, 123, -400, 400, "squares of doubles; a residual grows"},
    {"pareto", no_least, no_most, -400, 400, "squares of doubles"},
    {"gamma", no_least, no_most, -400, 400, "squares of doubles"},
    {"qsgd", no_least, 123, no_least, no_most, "with one to three levels, a norm above the largest float is the unit"},
    {"unbiased", no_least, 123, no_least, no_most, "decoded elements are 10 times as large"},
    {"hadamard", no_least, 123, no_least, no_most, "transformed elements are up to 16 times as large"},
    {",bfloat16)", no_least, 118, -100, 100, "the range of bfloat16"},
    {"power_sgd", no_least, 118, no_least, no_most, "the sums P and Q are larger than the matrix"},
    {"ef(", no_least, 123, no_least, no_most, "a residual or momentum grows to several gradients"},
};

template <class In>
bool is_in_range(std::string_view text, int k) {
  for (auto const& row : range_rows) {
    if (text.find(row.part) == text.npos) continue;
    auto const is_double = sizeof(In) == 8;
    return (is_double ? row.min_double : row.least) <= k && k <= (is_double ? row.max_double : row.most);
  }
  return true;
}

/// The text of the codec for gradients times 2^k: the parameters that are magnitudes are also multiplied by 2^k.
std::string scaled_text(std::string text, int k) {
  for (std::string_view const word : {"threshold(", "clip_norm("}) {
    auto const at = text.find(word);
    if (at == text.npos) continue;
    auto const first = at + word.size(), size = text.find_first_of(",)", first) - first;
    text.replace(first, size, pith::detail::shortest(std::ldexp(std::stod(text.substr(first, size)), k)));
  }
  return text;
}

/// The exponents for which the largest magnitudes are about 1e-30, 1e-25, 1e-19, 1e19, 1e30, 1e37 and a quarter of the
/// largest float; for double, 1e-290, 1e-195, 1e-120, 1e-30, 1e30, 1e120, 1e195 and 1e300.
template <class In>
std::vector<int> exponents() {
  if (sizeof(In) == 8) return {-963, -650, -400, -100, 100, 400, 650, 996};
  return {-100, -83, -63, 63, 100, 123, 126};
}

template <class In>
void check_codec(std::string const& text) {
  CAPTURE(text);
  auto const is_sign = text.find("sign") != text.npos && text.find("scaled_sign") == text.npos;
  auto const unscaled = outcomes_of<In>(pith::parse<In>(text), 0);
  for (auto const k : exponents<In>()) {
    if (!is_in_range<In>(text, k)) continue;
    CAPTURE(k);
    auto const scaled = outcomes_of<In>(pith::parse<In>(scaled_text(text, k)), k);
    REQUIRE(scaled.size() == unscaled.size());
    for (std::size_t i = 0; i < scaled.size(); ++i) {
      CAPTURE(i);
      CHECK(scaled[i] == times_power(unscaled[i], is_sign && i < scaled_steps ? 0 : k));
    }
  }
}

template <class In, class C>
void check_in_code(C const& codec, std::vector<int> const& powers) {
  CAPTURE(codec.name());
  auto const unscaled = outcomes_of<In>(codec, 0);
  for (auto const k : powers) {
    CAPTURE(k);
    auto const scaled = outcomes_of<In>(codec, k);
    for (std::size_t i = 0; i < scaled.size(); ++i) CHECK(scaled[i] == times_power(unscaled[i], k));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("means and residuals of every registered codec scale with the gradient", In, float, double) {
  using parser = pith::parser<In, pith::seq_executor, pith::all_methods>;
  support::for_each_example(parser::stages, check_codec<In>);
  support::for_each_example(parser::exchanges, check_codec<In>);
  support::for_each_example(parser::policies, check_codec<In>);
}

TEST_CASE_TEMPLATE("chains and collectives scale with the gradient", In, float, double) {
  for (auto const* text :
       {"ef(power_sgd(2))", "ef(one_sided_power_sgd(2))", "ef(power_sgd(1),own_residual)", "hadamard|qsgd<8>",
        "hadamard|scaled_sign", "ef(hadamard|block_int<4>)", "ef(top_k(0.05)|qsgd<8>)",
        "two_shot(block_int<8>,ef(block_int<8>))", "ring(block_int<8>)", "hierarchical(scaled_sign,scaled_sign,1)",
        "ef(qsgd<8>,mean_residual)", "ef(one_bit)", "ef(summed_terngrad,unverified)", "ef(sidco(0.02))"})
    check_codec<In>(text);
}

TEST_CASE("codecs without a text scale with the gradient") {
  auto const g = unscaled_gradient(0, 0);
  auto const samples = std::vector<float>(g.begin(), g.end());
  auto const powers = exponents<float>();
  check_in_code<float>(pith::product_quantizer<4>(pith::fit_codebook(samples, 4, 16).words), powers);
  check_in_code<float>(pith::adaptive_threshold(0.05), powers);
  check_in_code<float>(pith::sketch_ml<6>(), powers);
}

TEST_CASE("the mean of large values is finite where their sum is not") {
  auto const large = 0x1.ap127f;
  for (auto const* text : {"scaled_sign",
                           "scaled_sign(8)",
                           "one_bit",
                           "one_bit(row)",
                           "one_bit(column)",
                           "terngrad(0)",
                           "trits(terngrad(0))",
                           "summed_terngrad",
                           "qsgd<8>",
                           "qsgd<4>(7,64,max)",
                           "eight_bit",
                           "block_int<8>",
                           "top_k(1)",
                           "redsync(1)",
                           "random_k(1,none,own)",
                           "top_k(1)|qsgd<8>",
                           "top_k(1)|scaled_sign",
                           "two_shot(scaled_sign)",
                           "hierarchical(one_bit,eight_bit,2)",
                           "ef(scaled_sign)"}) {
    CAPTURE(text);
    pith::run_ranks(4, [&](pith::thread_communicator comm) {
      auto ex = pith::make_exchange<float>(pith::seq, comm, scaled_tensors, pith::parse<float>(text), {.seed = 3});
      auto g = std::vector<float>(ex.size(), large);
      ex.all_reduce_mean(pith::span<float>(g));
      for (auto const v : g) REQUIRE(v == doctest::Approx(large).epsilon(0.1));
    });
  }
}

TEST_CASE_TEMPLATE("sums of the largest entries do not overflow", In, float, double) {
  constexpr auto large = In(0.9) * std::numeric_limits<In>::max();
  for (unsigned const ranks : {1u, 2u, 3u, 4u, 5u, 7u, 8u}) {
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto const mean = [&](auto const& codec) {
        auto ex = pith::make_exchange<In>(pith::seq, comm, {{"a", {32}}}, codec);
        auto g = std::vector<In>(32, large);
        ex.all_reduce_mean(pith::span<In>(g));
        for (auto const v : g) CHECK(v == doctest::Approx(large).epsilon(1e-6));
      };
      mean(pith::g_top_k(1));
      mean(pith::ok_top_k(1));
    });
  }
}

TEST_CASE_TEMPLATE("a warm start suits later gradients of any scale", C, pith::power_sgd, pith::one_sided_power_sgd) {
  auto const unscaled = outcomes_of<float>(C(2), 0);
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto ex = pith::make_exchange<float>(pith::seq, comm, scaled_tensors, C(2), {.seed = 3});
    for (int step = 0; auto const k : {-100, 100, -60}) {
      auto const wide = unscaled_gradient(comm.rank(), step);
      auto g = times_power(std::vector<float>(wide.begin(), wide.end()), k);
      ex.all_reduce_mean(pith::span<float>(g));
      CHECK(g == times_power(unscaled[static_cast<std::size_t>(step++)], k));
    }
  });
}

TEST_CASE_TEMPLATE("clipping computes the norm for all magnitudes", In, float, double) {
  auto const x = std::vector<In>{3, -4, 12, 0};  // of norm 13
  for (auto const k : exponents<In>()) {
    CAPTURE(k);
    auto const size = std::min(k, std::numeric_limits<In>::max_exponent - 5);
    auto memory = std::vector<std::byte>(pith::clip_workspace_bytes(x.size()));
    auto ws = pith::workspace<>(pith::span<std::byte>(memory));
    auto g = times_power(x, size);
    pith::clip_to_norm<In>(pith::seq, pith::span<In>(g), std::ldexp(6.5, size), 1, ws);
    CHECK(g == times_power(x, size - 1));
    if (size < 0) continue;
    pith::clip_to_norm<In>(pith::seq, pith::span<In>(g), 13, 1, ws);
    for (std::size_t i = 0; i < 4; ++i) CHECK(g[i] == doctest::Approx(x[i]).epsilon(1e-6));
  }
}

TEST_CASE("a mean norm of doubles neither overflows nor underflows") {
  for (auto const k : {-900, -480, 0, 480, 900}) {
    pith::run_ranks(4, [k](pith::thread_communicator comm) {
      auto x = times_power(comm.rank() == 0 ? std::vector<double>{8, -8, 4} : std::vector<double>{0, 0, 0}, k);
      auto memory = std::vector<std::byte>(pith::mean_norm_workspace_bytes(x.size()));
      auto ws = pith::workspace<>(pith::span<std::byte>(memory));
      pith::clip_to_mean_norm<double>(pith::seq, comm, pith::span<double>(x), ws);
      if (comm.rank() == 0) CHECK(x == times_power(std::vector<double>{4, -4, 2}, k));
    });
  }
}

TEST_CASE("a sum of squares may have terms on both sides of a border of its parts") {
  for (auto const border : {480, -480}) {
    auto const small = std::ldexp(3.0, border - 2), large = std::ldexp(4.0, border - 2);
    auto const sum = pith::detail::squared(small) + pith::detail::squared(large);
    CHECK(pith::detail::root(sum) == doctest::Approx(std::ldexp(5.0, border - 2)).epsilon(1e-15));
  }
  CHECK(std::isnan(pith::detail::root(pith::detail::squared(std::nan("")))));
  CHECK(std::isinf(pith::detail::root(pith::detail::squared(double{INFINITY}))));
  CHECK(pith::detail::root(pith::detail::squared(0x1p-1074)) == 0x1p-1074);
}

TEST_CASE_TEMPLATE("components of a basis do not depend on the scale of the samples", A, float, double) {
  auto const fitted = [](int k) {
    auto samples = pith::slice_samples<A>(scaled_matrix, 16);
    for (int step = 0; step < 8; ++step) {
      auto const g = unscaled_gradient(0, step);
      auto const x = times_power(std::vector<A>(g.begin() + scaled_matrix, g.begin() + 2 * scaled_matrix), k);
      samples.template add<A>(pith::span<A const>(x));
    }
    return pith::pca_basis::fit(samples);
  };
  auto const unscaled = fitted(0);
  for (auto const k : sizeof(A) == 4 ? std::vector<int>{-100, 120} : std::vector<int>{-480, 480}) {
    auto const scaled = fitted(k);
    CHECK(scaled.vectors() == unscaled.vectors());
    CHECK(scaled.mean() == times_power(unscaled.mean(), k));
    CHECK(scaled.eigenvalues() == times_power(unscaled.eigenvalues(), 2 * k));
  }
}
