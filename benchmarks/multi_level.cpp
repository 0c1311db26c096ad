// benchmarks/multi_level.cpp — the cost of measuring a second, smaller selection in addition to the first.
//
//     multi_level [low density] [high density]      0.1 and 0.01 if left out
//
// Three models, tensor by tensor, by error_feedback on one thread. low and high: one selection each. both: low and then
// high, as a controller would need without rated. nested: rated(top_k), which measures at low and high and sends high.
// Seconds of all tensors are the least of five runs. The runs of a tensor alternate, so that other load affects all
// alike. The last column is the result: nested over low.
#include <pith/adaptor/rated.hpp>
#include <pith/codec/compress.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/top_k.hpp>

#include <range/v3/view/zip.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

namespace {

using sizes = std::vector<std::uint64_t>;

/// He, Zhang, Ren and Sun, CVPR 2016, table 1: 44.5 million values.
sizes resnet101() {
  auto all = sizes{64 * 3 * 7 * 7, 64, 64};
  std::uint64_t inputs = 64;
  auto const add = [&](std::uint64_t outputs, std::uint64_t columns) {
    all.insert(all.end(), {outputs * columns, outputs, outputs});
  };
  for (auto const& [blocks, width] : {std::pair{3u, 64u}, {4u, 128u}, {23u, 256u}, {3u, 512u}}) {
    for (unsigned block = 0; block < blocks; ++block) {
      add(width, inputs), add(width, width * 9), add(4 * width, width);
      if (block == 0) add(4 * width, inputs);
      inputs = 4 * width;
    }
  }
  all.insert(all.end(), {1000 * 2048, 1000});
  return all;
}

/// Simonyan and Zisserman, ICLR 2015, column D: 138.4 million values.
sizes vgg16() {
  auto all = sizes();
  std::uint64_t inputs = 3;
  for (std::uint64_t const outputs : {64u, 64u, 128u, 128u, 256u, 256u, 256u, 512u, 512u, 512u, 512u, 512u, 512u}) {
    all.insert(all.end(), {outputs * inputs * 9, outputs});
    inputs = outputs;
  }
  all.insert(all.end(), {25088 * 4096, 4096, 4096 * 4096, 4096, 4096 * 1000, 1000});
  return all;
}

/// Two layers of 1500 and 10,000 words: 66 million values.
sizes lstm() {
  auto all = sizes{10'000 * 1500};
  for (int layer = 0; layer < 2; ++layer) all.insert(all.end(), {6000 * 1500, 6000 * 1500, 6000, 6000});
  all.insert(all.end(), {10'000 * 1500, 10'000});
  return all;
}

/// A sum of two uniform values, cubed: many small and few large values, like gradients.
std::vector<float> gradient(std::uint64_t n) {
  auto g = std::vector<float>(n);
  std::uint64_t state = n;
  auto const uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f;
  };
  for (auto& v : g) {
    auto const x = uniform() + uniform();
    v = x * x * x;
  }
  return g;
}

/// One way to encode a tensor repeatedly.
template <class C>
class way {
 public:
  way(C codec, std::uint64_t n)
      : codec_(codec),
        state_(pith::make_state<float>(pith::seq, codec_, {n})),
        payload_(pith::payload_bytes<float>(codec_, {n})),
        memory_(pith::workspace_bytes<float>(pith::seq, codec_, {n})) {}

  double seconds(std::vector<float> const& g) {
    auto ws = pith::workspace<>(memory_);
    auto const begin = std::chrono::steady_clock::now();
    pith::compress<float>(pith::seq, codec_, pith::span<float const>(g), pith::span(payload_), state_, ws);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  C codec_;
  pith::codec_state<float, C, pith::seq_executor> state_;
  std::vector<std::byte> payload_, memory_;
};

/// The least of five runs of low, high and nested, after one of each.
std::array<double, 3> times_of(std::uint64_t n, double low, double high) {
  using pith::error_feedback, pith::rated, pith::top_k;
  auto const g = gradient(n);
  auto first = way(error_feedback(top_k(low)), n), second = way(error_feedback(top_k(high)), n);
  auto nested = way(error_feedback(rated(top_k(high)).measuring({low, high})), n);
  auto least = std::array{HUGE_VAL, HUGE_VAL, HUGE_VAL};
  for (int run = 0; run < 6; ++run) {
    auto const now = std::array{first.seconds(g), second.seconds(g), nested.seconds(g)};
    if (run == 0) continue;
    for (auto&& [kept, seen] : ranges::views::zip(least, now)) kept = std::min(kept, seen);
  }
  return least;
}

void report(char const* name, sizes const& tensors, double low, double high) {
  auto known = std::map<std::uint64_t, std::array<double, 3>>();  // tensors of one size take one time
  auto sum = std::array<double, 3>();
  std::uint64_t values = 0;
  for (auto const n : tensors) {
    if (known.count(n) == 0) known[n] = times_of(n, low, high);
    for (auto&& [all, one] : ranges::views::zip(sum, known[n])) all += one;
    values += n;
  }
  std::printf("%-14s %7.1f %9.1f %9.1f %9.1f %9.1f %8.2f %12.2f\n", name, static_cast<double>(values) * 4e-6,
              1e3 * sum[0], 1e3 * sum[1], 1e3 * (sum[0] + sum[1]), 1e3 * sum[2], sum[2] / (sum[0] + sum[1]),
              sum[2] / sum[0]);
}

}  // namespace

int main(int argc, char** argv) {
  auto const low = argc > 1 ? std::atof(argv[1]) : 0.1, high = argc > 2 ? std::atof(argv[2]) : 0.01;
  std::printf("densities %g and %g          ms of all tensors                      nested to\n", low, high);
  std::printf("%-14s %7s %9s %9s %9s %9s %8s %12s\n", "model", "MB", "low", "high", "both", "nested", "both", "low");
  report("ResNet-101", resnet101(), low, high);
  report("VGG-16", vgg16(), low, high);
  report("LSTM 2 x 1500", lstm(), low, high);
}
