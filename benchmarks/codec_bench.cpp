// benchmarks/codec_bench.cpp — encode and decode of each codec beside memcpy, with payload and error.
//
//   codec_bench [--benchmark_filter=REGEX] [--benchmark_format=json]
//
// x_memcpy is the time over that of copying the same values in the same process; ratio is dense bytes over payload
// bytes; error is |D(C(x)) - x|^2 / |x|^2 on normal values.
#include <pith/parse.hpp>

#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t n = std::uint64_t{1} << 22;

std::vector<float> const& normal_values() {
  static auto const values = [] {
    auto random = std::mt19937(1);
    auto draw = std::normal_distribution<float>();
    auto x = std::vector<float>(n);
    for (auto& v : x) v = draw(random);
    return x;
  }();
  return values;
}

double seconds(auto const& run) {
  auto const begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double memcpy_seconds() {
  static double const best = [] {
    auto to = normal_values();
    double time = 1;
    for (int round = 0; round < 31; ++round) {
      time = std::min(time, seconds([&] { std::memcpy(to.data(), normal_values().data(), n * sizeof(float)); }));
      benchmark::DoNotOptimize(to.data());
    }
    return time;
  }();
  return best;
}

double relative_error(std::vector<float> const& x, std::vector<float> const& y) {
  double error = 0, energy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
    energy += std::pow(static_cast<double>(x[i]), 2);
  }
  return error / energy;
}

/// All that a codec needs to run.
struct bench {
  explicit bench(std::string const& text)
      : codec(pith::parse<float>(text)),
        state(pith::make_state<float>(pith::seq, codec, dims)),
        payload(pith::payload_bytes<float>(codec, dims)),
        scratch(pith::workspace_bytes<float>(pith::seq, codec, dims)),
        y(n) {}

  void encode() { pith::compress(pith::seq, codec, pith::span(normal_values()), pith::span(payload), state, ws); }
  void decode() { pith::decompress(pith::seq, codec, pith::span(payload), pith::span(y), state, ws); }

  pith::shape dims{n, 2048};
  pith::any_codec<float, pith::seq_executor> codec;
  pith::codec_state<float, pith::any_codec<float, pith::seq_executor>, pith::seq_executor> state;
  std::vector<std::byte> payload, scratch;
  std::vector<float> y;
  pith::workspace<> ws{pith::span(scratch)};
};

void measure(benchmark::State& rounds, std::string const& text, bool decoding) {
  auto b = bench(text);
  b.encode();
  b.decode();
  auto const error = relative_error(normal_values(), b.y);
  double best = 1e9;
  for (auto _ : rounds) best = std::min(best, seconds([&] { decoding ? b.decode() : b.encode(); }));
  rounds.SetBytesProcessed(rounds.iterations() * static_cast<std::int64_t>(n * sizeof(float)));
  rounds.counters["x_memcpy"] = best / memcpy_seconds();
  rounds.counters["ratio"] = static_cast<double>(n * sizeof(float)) / static_cast<double>(b.payload.size());
  rounds.counters["error"] = error;
}

}  // namespace

int main(int argc, char** argv) {
  for (std::string const text :
       {"identity", "cast<half>", "cast<bfloat16>", "scaled_sign", "qsgd<8>", "qsgd<4>", "top_k(0.01)", "random_k(0.1)",
        "power_sgd(2)", "top_k(0.01)|qsgd<8>", "ef(scaled_sign)", "ef(qsgd<8>)", "ef(top_k(0.01)|qsgd<8>)"}) {
    benchmark::RegisterBenchmark((text + "/encode").c_str(), measure, text, false)->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark((text + "/decode").c_str(), measure, text, true)->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
