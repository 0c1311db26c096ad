// benchmarks/gpu_tensors.cu — a step of an exchange of 161 tensors on a GPU, beside one tensor of their total size.
//
//   gpu_tensors [--quick] > FILE       a table in Markdown; run by benchmarks/gpu.sh
//
// A step encodes and decodes all tensors, with one rank, so without a transport. Each codec has three rows: one tensor
// with all elements, the 161 tensors in one bucket, and the 161 tensors in the default buckets. A step is timed twice:
// replayed from a graph, between two events; and called by the host, until the stream is idle. Ratios are to one tensor.
// Times are medians of 31 rounds. A round runs all steps of a codec in a new random order. --quick has 3 rounds, and an
// eighth of each tensor.
#include "gpu_replay.hpp"
#include "resnet50.hpp"
#include "values.hpp"

#include <pith/codec/any_codec.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/top_k.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using E = pith::cuda_executor;
using codec = pith::any_codec<float, E>;
using tensors = std::vector<pith::tensor_spec>;

/// A shape with fewer columns.
pith::shape part_of(pith::shape const& dims, std::uint64_t divisor) {
  return pith::matrix(dims.rows, std::max<std::uint64_t>(1, dims.columns() / divisor));
}
tensors resnet50(std::uint64_t divisor) {
  auto made = tensors();
  for (auto const& dims : bench::resnet50_tensors().shapes())
    made.push_back({"t" + std::to_string(made.size()), part_of(dims, divisor)});
  return made;
}
/// One matrix with the elements of all tensors, less a few that do not fill a column.
tensors joined(tensors const& all) {
  constexpr std::uint64_t rows = 4096;
  std::uint64_t n = 0;
  for (auto const& t : all) n += t.dims.n;
  return {{"all", pith::matrix(rows, n / rows)}};
}

/// An exchange with one rank, its gradient, and the graph of a step.
class subject {
 public:
  subject(E const& exec, tensors const& all, codec const& c, std::optional<std::size_t> bucket_bytes)
      : exec_(exec),
        exchange_(pith::make_exchange<float>(exec, comm_, all, c, {.seed = 1, .bucket_bytes = bucket_bytes})),
        values_(exec, exchange_.size()),
        gradient_(exec, exchange_.size()) {
    auto const values = bench::normal_values<float>(values_.size());
    exec.upload(values_.data(), values.data(), values_.size_bytes());
    reset();
    step();
    exec.wait();
    graph_.emplace(exec, [this] { step(); });
  }
  subject(subject&&) = delete;

  double on_device(bench::stopwatch const& watch) const {
    reset();
    return watch.seconds(*graph_);
  }
  double from_host() {
    reset();
    exec_.wait();
    auto const begun = std::chrono::steady_clock::now();
    step();
    exec_.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }
  std::size_t tensors() const { return exchange_.tensors().size(); }
  std::size_t buckets() const { return exchange_.buckets(); }
  std::size_t nodes() const { return graph_->nodes(); }

 private:
  /// A step replaces the gradient by the mean.
  void reset() const { exec_.copy(gradient_.data(), values_.data(), values_.size_bytes()); }
  void step() { exchange_.all_reduce_mean(gradient_.view()); }

  E exec_;
  pith::self_communicator comm_;
  pith::gradient_exchange<float, E, pith::self_communicator> exchange_;
  pith::buffer<float, E> values_, gradient_;
  std::optional<bench::replay> graph_;
};

void measure(E const& exec, std::string const& text, codec const& c, std::uint64_t divisor, std::size_t rounds) {
  auto const many = resnet50(divisor), one = joined(many);
  constexpr auto whole = std::size_t{1} << 30;
  subject subjects[] = {{exec, one, c, whole}, {exec, many, c, whole}, {exec, many, c, std::nullopt}};
  auto const watch = bench::stopwatch(exec.stream());
  auto const times = bench::interleave(6, rounds, [&](std::size_t i, std::size_t) {
    auto& s = subjects[i / 2];
    return i % 2 == 0 ? s.on_device(watch) : s.from_host();
  });
  for (std::size_t i = 0; i < 3; ++i) {
    std::printf("| `%s` | %zu | %zu | %zu | %.0f (%.2f) | %.0f (%.2f) |\n", text.c_str(), subjects[i].tensors(),
                subjects[i].buckets(), subjects[i].nodes(), 1e6 * times[2 * i].median,
                times[2 * i].median / times[0].median, 1e6 * times[2 * i + 1].median,
                times[2 * i + 1].median / times[1].median);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  auto const is_quick = argc == 2 && argv[1] == std::string_view("--quick");
  if (argc > 1 && !is_quick) {
    std::fputs("usage: gpu_tensors [--quick] > FILE\n", stderr);
    return 2;
  }
  try {
    auto const stream = pith::detail::side_stream();
    auto const exec = pith::on(stream.get());
    std::puts("| codec | tensors | buckets | launches | graph, us (ratio) | calls, us (ratio) |\n|---|---|---|---|---|---|");
    auto const run = [&](auto const& c) { measure(exec, c.name(), codec(c), is_quick ? 8 : 1, is_quick ? 3 : 31); };
    run(pith::cast<pith::bfloat16>());
    run(pith::error_feedback(pith::qsgd<8>()));
    run(pith::error_feedback(pith::scaled_sign()));
    run(pith::error_feedback(pith::top_k(0.01)));
    run(pith::error_feedback(pith::power_sgd(4)));
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "gpu_tensors: %s\n", error.what());
  }
  return 1;
}
