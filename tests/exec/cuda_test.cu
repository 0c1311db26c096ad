// tests/exec/cuda_test.cu — a stream's primitives on a device, and steps that are captured in a graph and replayed.
#include <pith/comm/self.hpp>
#include <pith/core/detail/summation.hpp>
#include <pith/exchange/mean_norm.hpp>

#include <limits>

#include "support/codecs.hpp"
#include "support/device.hpp"

using namespace support;

namespace {

template <class T>
std::vector<T> downloaded(pith::cuda_executor const& exec, pith::buffer<T, pith::cuda_executor> const& from) {
  auto to = std::vector<T>(from.size());
  exec.download(to.data(), from.data(), from.size_bytes());
  return to;
}

struct count_up {
  std::uint32_t* seen;
  PITH_HD void operator()(std::uint64_t i) const { ++seen[i]; }
};

/// A block writes its number, by way of a memory of `Bytes`.
template <std::uint32_t Bytes>
struct number_block {
  using memory = pith::detail::fast_array<std::uint32_t, Bytes / 4>;
  std::uint32_t* to;

  template <pith::team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto* const words = fast.data();
    auto* const out = to + block;
    team.for_each(Bytes / 4, [=](std::uint32_t i) { words[i] = static_cast<std::uint32_t>(block) + 1; });
    team.for_each(1u, [=](std::uint32_t) { *out += words[Bytes / 4 - 1]; });
  }
};

/// Counts the words of a memory that is all that a kernel has without asking, beside which the team needs some.
struct count_words {
  using memory = pith::detail::fast_array<std::uint32_t, 12 * 1024>;
  std::uint32_t* to;

  template <pith::team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto* const words = fast.data();
    auto* const out = to;
    team.for_each(12u * 1024, [=](std::uint32_t i) { words[i] = i; });
    auto const count = team.count(12u * 1024, [=](std::uint32_t i) { return words[i] == i; });
    team.for_each(1u, [=](std::uint32_t) { *out = count; });
  }
};

/// Not commutative, so that the order shows.
struct lopsided {
  PITH_HD double operator()(double a, double b) const { return a - 0.5 * b; }
};
struct at {
  float const* x;
  PITH_HD double operator()(std::uint64_t i) const { return static_cast<double>(x[i]); }
};

template <pith::executor E>
double reduced(E const& exec, std::vector<float> const& values) {
  auto x = pith::buffer<float, E>(exec, values.size());
  auto sum = pith::buffer<double, E>(exec, 1);
  auto scratch = pith::buffer<std::byte, E>(exec, pith::detail::reduce_scratch_bytes<double>(values.size()) + 128);
  auto ws = pith::workspace_on<E>(scratch.view());
  exec.upload(x.data(), values.data(), x.size_bytes());
  pith::detail::reduce_into(exec, sum.data(), values.size(), at{x.data()}, lopsided(), 0.0, ws);
  double result = 0;
  exec.download(&result, sum.data(), sizeof result);
  return result;
}

/// The rank of four whose gradient is not zero.
struct among_zeros : pith::self_communicator {
  unsigned size() const { return 4; }
};

/// A gradient that both rules make smaller, one after the other.
template <pith::executor E>
std::vector<float> clipped(E const& exec, std::vector<float> values) {
  auto const x = pith::buffer<float, E>(exec, values.size());
  auto const scratch = pith::buffer<std::byte, E>(exec, pith::mean_norm_workspace_bytes(values.size()) + 128);
  auto ws = pith::workspace_on<E>(scratch.view());
  auto comm = among_zeros();
  exec.upload(x.data(), values.data(), x.size_bytes());
  pith::clip_to_mean_norm<float>(exec, comm, x.view(), ws);
  pith::clamp_to_mean_norm<float>(exec, comm, x.view(), ws);
  exec.download(values.data(), x.data(), x.size_bytes());
  return values;
}

std::vector<std::uint32_t> numbers(std::uint64_t n) {
  auto to = std::vector<std::uint32_t>(n);
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<std::uint32_t>(i) + 1;
  return to;
}

}  // namespace

TEST_CASE("every index is called once") {
  auto const stream = own_stream();
  auto const exec = pith::on(stream.get());
  for (std::uint64_t const n : {0u, 1u, 255u, 257u, 1'000'003u}) {
    CAPTURE(n);
    auto const seen = pith::buffer<std::uint32_t, pith::cuda_executor>(exec, n);
    exec.for_each_index(n, count_up{seen.data()});
    CHECK(downloaded(exec, seen) == std::vector<std::uint32_t>(n, 1));
  }
}

TEST_CASE_TEMPLATE("every block is called once with memory of its own", Block, number_block<64>,
                   number_block<48 * 1024>, number_block<96 * 1024>) {
  auto const stream = own_stream();
  auto const exec = pith::on(stream.get());
  for (std::uint64_t const n : {0u, 1u, 5000u}) {
    auto const to = pith::buffer<std::uint32_t, pith::cuda_executor>(exec, n);
    exec.for_each_block(n, Block{to.data()});
    CHECK(downloaded(exec, to) == numbers(n));
  }
}

TEST_CASE("a block whose memory is all of a kernel's leaves some to the team") {
  auto const stream = own_stream();
  auto const exec = pith::on(stream.get());
  auto const count = pith::buffer<std::uint32_t, pith::cuda_executor>(exec, 1);
  exec.for_each_block(1, count_words{count.data()});
  CHECK(downloaded(exec, count) == std::vector<std::uint32_t>{12 * 1024});
}

TEST_CASE("more blocks than a grid may have are refused") {
  auto const stream = own_stream();
  auto const exec = pith::on(stream.get());
  CHECK_THROWS_WITH_AS(exec.for_each_block(std::uint64_t{1} << 31, number_block<64>{nullptr}),
                       "pith::cuda_executor: a grid has at most 2147483647 blocks, got 2147483648",
                       std::invalid_argument);
}

TEST_CASE("bytes are copied and filled in the order of the stream") {
  auto const stream = own_stream();
  auto const exec = pith::on(stream.get());
  auto const a = pith::buffer<std::uint8_t, pith::cuda_executor>(exec, 1000);
  auto const b = pith::buffer<std::uint8_t, pith::cuda_executor>(exec, 1000);
  exec.fill(a.data(), std::byte{7}, 600);
  exec.copy(b.data() + 100, a.data(), 700);
  auto expected = std::vector<std::uint8_t>(1000);
  std::fill_n(expected.begin() + 100, 600, std::uint8_t{7});
  CHECK(downloaded(exec, b) == expected);
}

TEST_CASE("a reduction has the bits of seq at every border") {
  auto const stream = own_stream();
  for (std::uint64_t const n : {1u, 2u, 255u, 2047u, 2049u, 16383u, 16385u, 100'003u}) {
    CAPTURE(n);
    auto const x = narrow<float>(normal_vector(n, 5));
    CHECK(reduced(pith::on(stream.get()), x) == reduced(pith::seq, x));
  }
}

TEST_CASE("gradients are clipped by the mean norm with the bits of seq") {
  auto const stream = own_stream();
  for (auto x : {narrow<float>(normal_vector(50'003, 6)), std::vector<float>{8, 0, 0}}) {
    auto const y = clipped(pith::on(stream.get()), x);
    CHECK(same_bytes(y, clipped(pith::seq, x)));
    CHECK(y != x);
  }
}

TEST_CASE("a captured step is replayed and draws other random numbers each time") {
  auto codec = pith::error_feedback(pith::random_k(0.5) | pith::qsgd<8>());
  auto const dims = pith::shape{50'003};
  auto const stream = own_stream();
  auto expected = execution<float, pith::seq_executor, decltype(codec)>(pith::seq, codec, dims);
  auto run = execution<float, pith::cuda_executor, decltype(codec)>(pith::on(stream.get()), codec, dims);
  expected.step();
  run.step();  // so that no kernel is loaded while a graph is captured
  using pith::check_cuda;
  check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), "begin");
  run.step();
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream.get(), &graph), "end");
  cudaGraphExec_t step = nullptr;
  check_cuda(cudaGraphInstantiate(&step, graph, 0), "instantiate");
  for (int i = 0; i < 3; ++i) {
    check_cuda(cudaGraphLaunch(step, stream.get()), "launch");
    expected.step();
    CHECK(run.bytes() == expected.bytes());
  }
  cudaGraphExecDestroy(step);
  cudaGraphDestroy(graph);
}

TEST_CASE("an error names the call") {
  auto const most = std::numeric_limits<std::size_t>::max() / 2;
  CHECK_THROWS_WITH_AS(static_cast<void>(pith::on(nullptr).allocate(most)), "pith::cuda: cudaMalloc: out of memory",
                       pith::cuda_error);
}
