// benchmarks/gpu_bench.cu — times of codecs, copies and CUB on a GPU, as JSON; run by benchmarks/gpu.sh.
//
//   gpu_bench [--quick] [--no-peers] > FILE
//     --quick       2^20 elements and 11 rounds, in place of the sizes 2^16 to 2^28 that fit, and 51 rounds
//     --no-peers    omits CUB: the emulator lacks some of its instructions
//
// Each operation is captured in one graph per set of buffers. The sets together exceed the second-level cache four
// times (except for small sizes), and are launched in turn. A round runs each operation once, in a new random order.
// Times are between two events. Up to 2^22 elements errors are measured, and a payload that differs from the host's is
// a failure. Some codecs also encode and decode 128 tensors in lanes, which together have the size.
#include "gpu_lanes.hpp"
#include "gpu_peers.hpp"
#include "gpu_replay.hpp"
#include "gpu_subject.hpp"

#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using E = pith::cuda_executor;
using bench::check_cuda;

struct options {
  std::vector<unsigned> sizes{16, 20, 22, 24, 26, 28};
  std::size_t rounds = 51;
  bool has_peers = true;
};

/// The largest size at which payloads are compared with the host's.
constexpr auto max_compared = std::uint64_t{1} << 22;

/// The number of buffers of `bytes` that together exceed the second-level cache four times, at most 32.
std::size_t sets_for_device(cudaDeviceProp const& device, std::size_t bytes) {
  return std::clamp<std::size_t>(4 * static_cast<std::size_t>(device.l2CacheSize) / bytes + 1, 2, 32);
}

/// Whether a group's values, residuals and payloads fit, by a rough estimate.
bool has_room(cudaDeviceProp const& device, std::size_t bytes) {
  std::size_t free = 0, all = 0;
  check_cuda(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  return (12 * sets_for_device(device, bytes) + 12) * bytes < free;
}

/// All measurements at one size.
class group {
 public:
  group(E const& exec, cudaDeviceProp const& device, unsigned log2n, bool has_peers)
      : exec_(exec),
        dims_(bench::matrix_of(log2n)),
        name_("/2^" + std::to_string(log2n)),
        sets_(sets_for_device(device, dims_.n * sizeof(float))),
        host_(bench::normal_values<float>(dims_.n)),
        x_(exec, dims_.n, sets_),
        y_(exec, dims_.n, sets_),
        peers_(exec, dims_.n) {
    for (std::size_t set = 0; set < sets_; ++set) exec.upload(x_[set].data(), host_.data(), bytes());
    add_memory();
    add_codecs();
    if (has_peers) add_peers();
  }

  void print(std::size_t rounds) const {
    auto const times = interleave(bench::stopwatch(exec_.stream()), operations_, rounds);
    for (std::size_t i = 0; i < times.size(); ++i) print(operations_[i], times[i], times[0]);
  }

 private:
  std::size_t bytes() const { return dims_.n * sizeof(float); }

  /// The copy is the first.
  void add_memory() {
    auto const b = static_cast<double>(bytes());
    add({"copy", {b, b}}, [this](std::size_t set) { exec_.copy(y_[set].data(), x_[set].data(), bytes()); });
    add({"copy kernel", {b, b}}, [this](std::size_t set) { peers_.copy(x_[set].data()); });
    add({"fill", {0, b}}, [this](std::size_t set) { exec_.fill(y_[set].data(), std::byte{1}, bytes()); });
  }

  void add_codecs() {
    using pith::error_feedback;
    add_codec(pith::sign());
    add_codec(pith::scaled_sign());
    add_codec(pith::qsgd<8>());
    add_codec(pith::qsgd<4>());
    add_codec(pith::natural<8>());
    add_codec(pith::cast<pith::half>());
    add_codec(pith::cast<pith::bfloat16>());
    add_codec(pith::top_k(0.01));
    add_codec(pith::random_k(0.01));
    add_codec(pith::power_sgd(4));
    add_codec(error_feedback(pith::scaled_sign()));
    add_codec(error_feedback(pith::qsgd<8>()));
    add_codec(error_feedback(pith::top_k(0.01)));
    add_codec(error_feedback(pith::power_sgd(4)));
    add_lanes(pith::cast<pith::bfloat16>());
    add_lanes(error_feedback(pith::qsgd<8>()));
    add_lanes(error_feedback(pith::scaled_sign()));
    add_lanes(error_feedback(pith::top_k(0.01)));
  }

  template <class C>
  void add_lanes(C const& codec) {
    constexpr std::size_t count = 128;
    auto const tensors = std::vector<pith::shape>(count, {dims_.n / count});
    auto const s = std::make_shared<bench::lanes_subject<C>>(exec_, codec, tensors);
    auto const name = codec.name() + " of 128 tensors";
    add({"encode " + name, s->encoding()}, [=](std::size_t) { s->encode(); });
    add({"decode " + name, s->decoding()}, [=](std::size_t) { s->decode(); });
    subjects_.push_back(s);
  }

  template <class C>
  void add_codec(C const& codec) {
    using subject = bench::static_subject<E, C>;
    auto const s = std::make_shared<subject>(exec_, codec, dims_, sets_);
    for (std::size_t set = 0; set < sets_; ++set) s->encode(set, x_[set]);
    s->decode(0, y_[0]);
    require_bytes_of_host(codec, s->payload(0));
    auto const ratio = static_cast<double>(bytes()) / static_cast<double>(s->payload_bytes()), lost = error();
    auto const name = codec.name();
    add({"encode " + name, s->encoding(), ratio, lost}, [=, this](std::size_t set) { s->encode(set, x_[set]); });
    add({"decode " + name, s->decoding(), ratio, lost}, [=, this](std::size_t set) { s->decode(set, y_[set]); });
    if constexpr (subject::sums) {
      for (std::size_t set = 0; set < sets_; ++set) s->gather(set);
      add({"decode_sum4 " + name, s->summing(), ratio, lost},
          [=, this](std::size_t set) { s->decode_ranks(set, y_[set]); });
    }
    subjects_.push_back(s);
  }

  template <class C>
  void require_bytes_of_host(C const& codec, std::vector<std::byte> const& payload) const {
    if (!pith::reproducible<C> || dims_.n > max_compared) return;
    if (payload != bench::payload_of_host(codec, dims_, host_))
      throw std::runtime_error("encode " + codec.name() + name_ + ": other bytes than the host's");
  }

  /// The error of the first set's decoded tensor; 0 if it is not measured.
  double error() const {
    if (dims_.n > max_compared) return 0;
    auto y = std::vector<float>(dims_.n);
    exec_.download(y.data(), y_[0].data(), bytes());
    return bench::relative_error<float>(host_, y);
  }

  void add_peers() {
    auto const b = static_cast<double>(bytes()), kept = 4 * static_cast<double>(peers_.k());
    add_peer({"cub sum", {b, 0}}, &bench::peer_calls::reduce);
    add_peer({"cub select 1 %", {b, kept}}, &bench::peer_calls::select);
    add_peer({"cub sort for top_k(0.01)", {b, 2 * kept}}, &bench::peer_calls::sort);
    add_peer({"cub transform to bfloat16", {b, b / 2}}, &bench::peer_calls::transform);
#if __has_include(<cub/device/device_topk.cuh>)
    add_peer({"cub top_k(0.01)", {b, 2 * kept}}, &bench::peer_calls::top_k);
#endif
  }
  using peer_call = cudaError_t (bench::peer_calls::*)(float const*, void*, std::size_t&) const;

  void add_peer(bench::operation what, peer_call call) {
    std::size_t room = 0;
    check_cuda((peers_.*call)(x_[0].data(), nullptr, room), what.name.c_str());
    auto const memory = std::make_shared<pith::buffer<std::byte, E>>(exec_, room);
    auto const name = what.name;
    add(std::move(what), [=, this](std::size_t set) {
      auto size = room;
      check_cuda((peers_.*call)(x_[set].data(), memory->data(), size), name.c_str());
    });
    subjects_.push_back(memory);
  }

  /// Runs once before the capture, so that its code is loaded.
  template <class Run>
  void add(bench::operation what, Run const& run) {
    run(0);
    exec_.wait();
    for (std::size_t set = 0; set < sets_; ++set) what.sets.emplace_back(exec_, [&] { run(set); });
    operations_.push_back(std::move(what));
  }

  void print(bench::operation const& what, bench::timing const& time, bench::timing const& copy) const {
    auto const speed = what.least.total() / time.median;
    std::printf("%s\n{\"name\": \"%s%s\", \"real_time\": %.6g, \"time_unit\": \"us\", \"q10\": %.6g,", separator_,
                what.name.c_str(), name_.c_str(), time.median * 1e6, time.q10 * 1e6);
    std::printf(" \"bytes_per_element\": %.6g, \"of_copy\": %.6g, \"x_copy\": %.6g, \"launches\": %zu,",
                what.least.total() / static_cast<double>(dims_.n),
                speed * copy.median / (2 * static_cast<double>(bytes())), time.median / copy.median, what.launches());
    std::printf(" \"ratio\": %.6g, \"error\": %.6g}", what.ratio, what.error);
    separator_ = ",";
  }

  E exec_;
  pith::shape dims_;
  std::string name_;
  std::size_t sets_;
  std::vector<float> host_;
  bench::rotated<float, E> x_, y_;
  bench::peer_calls peers_;
  std::vector<std::shared_ptr<void>> subjects_;
  std::vector<bench::operation> operations_;
  static inline char const* separator_ = "";
};

void print_context(cudaDeviceProp const& device) {
  auto const now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", std::gmtime(&now));
  std::printf("{\"context\": {\"cpu\": \"%s\", \"compiler\": \"nvcc %d.%d\", \"date\": \"%s\", ", device.name,
              __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, date);
  std::printf("\"multiprocessors\": %d, \"l2_bytes\": %d},\n\"benchmarks\": [", device.multiProcessorCount,
              device.l2CacheSize);
}

void measure(options const& o) {
  auto device = cudaDeviceProp();
  check_cuda(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  auto const stream = pith::detail::side_stream();
  print_context(device);
  for (auto const size : o.sizes) {
    if (has_room(device, std::size_t{sizeof(float)} << size))
      group(pith::on(stream.get()), device, size, o.has_peers).print(o.rounds);
  }
  std::printf("\n]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  auto o = options();
  for (auto const* const* word = argv + 1; word < argv + argc; ++word) {
    if (*word == std::string_view("--quick")) {
      o.sizes = {20}, o.rounds = 11;
    } else if (*word == std::string_view("--no-peers")) {
      o.has_peers = false;
    } else {
      std::fputs("usage: gpu_bench [--quick] [--no-peers] > FILE\n", stderr);
      return 2;
    }
  }
  try {
    measure(o);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
  }
  return 1;
}
