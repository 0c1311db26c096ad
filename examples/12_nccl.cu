// examples/12_nccl.cu — the gradient descent of 04_exchange_mpi on GPUs, over NCCL.
//
//   step   0  |w - w*| = 53.88
//   step  50  |w - w*| = 3.67
//   step 100  |w - w*| = 2.73
//   184 bytes gathered and 128 summed per step, not 4224
//
// A rank is a thread with its own GPU. In a job with one process per GPU, rank 0 makes the id and sends it, for example
// by MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD). The test runs four ranks on the emulator; on hardware, NCCL
// has run with one GPU.
#include <pith/comm/nccl.hpp>
#include <pith/comm/threads.hpp>
#include <pith/core/buffer.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/pith.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr unsigned ranks = 4;
std::vector<pith::tensor_spec> const tensors = {{"weight", pith::matrix(32, 32)}, {"bias", pith::vector(32)}};
using device_floats = pith::buffer<float, pith::cuda_executor>;

__global__ void subtract(float* gradient, float const* w, float const* target) {
  auto const i = blockIdx.x * blockDim.x + threadIdx.x;
  gradient[i] = w[i] - target[i];
}

__global__ void descend(float* w, float const* gradient) {
  auto const i = blockIdx.x * blockDim.x + threadIdx.x;
  w[i] -= 0.05f * gradient[i];
}

/// Rank r wants w_i = sin(i) + r, so all together want the mean over r.
std::vector<float> target(std::size_t n, float r) {
  auto t = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i) t[i] = std::sin(static_cast<float>(i)) + r;
  return t;
}

double distance(pith::cuda_executor exec, device_floats const& w) {
  auto const want = target(w.size(), (ranks - 1) / 2.0f);
  auto have = want;
  exec.download(have.data(), w.data(), w.size_bytes());
  double squared = 0;
  for (std::size_t i = 0; i < want.size(); ++i) squared += std::pow(have[i] - want[i], 2);
  return std::sqrt(squared);
}

void print(pith::traffic sent, std::size_t n) {
  std::printf("%zu bytes gathered and %zu summed per step, not %zu\n", sent.gathered, sent.summed, 4 * n);
}

void train(pith::cuda_executor exec, pith::nccl_communicator comm) {
  auto const codec = pith::error_feedback(pith::top_k(0.1) | pith::qsgd<8>());
  auto exchange = pith::make_exchange<float>(exec, comm, tensors, pith::matrices(codec));
  auto const n = exchange.size();
  device_floats w(exec, n), gradient(exec, n), wanted(exec, n);
  auto const own = target(n, static_cast<float>(comm.rank()));
  exec.upload(wanted.data(), own.data(), wanted.size_bytes());
  for (int step = 0; step <= 100; ++step) {
    if (comm.rank() == 0 && step % 50 == 0) std::printf("step %3d  |w - w*| = %.2f\n", step, distance(exec, w));
    subtract<<<n / 32, 32, 0, exec.stream()>>>(gradient.data(), w.data(), wanted.data());
    exchange.all_reduce_mean(gradient.view());
    descend<<<n / 32, 32, 0, exec.stream()>>>(w.data(), gradient.data());
    comm.synchronize(exec, std::chrono::seconds(60));  // throws if a rank is lost
  }
  if (comm.rank() == 0) print(exchange.traffic(), n);
}

void check(ncclResult_t code, char const* call) {
  if (code != ncclSuccess) throw pith::communication_error(std::string(call) + ": " + ncclGetErrorString(code));
}

void run_rank(unsigned rank, ncclUniqueId const& id) {
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;
  pith::check_cuda(cudaSetDevice(static_cast<int>(rank)), "cudaSetDevice");
  pith::check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate");
  check(ncclCommInitRank(&comm, ranks, id, static_cast<int>(rank)), "ncclCommInitRank");
  train(pith::on(stream), pith::nccl_communicator(comm));  // destroys the exchange before the communicator
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  pith::check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < static_cast<int>(ranks)) {
    std::printf("12_nccl needs %u devices, found %d\n", ranks, devices);
    return 1;
  }
  auto id = ncclUniqueId();
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  pith::run_ranks(ranks, [&](pith::thread_communicator threads) { run_rank(threads.rank(), id); });
}
