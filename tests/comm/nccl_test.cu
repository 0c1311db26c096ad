// tests/comm/nccl_test.cu — a NCCL communicator of one rank, on the device.
#include <pith/comm/nccl.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace {

/// As much of a device executor as a communicator asks for.
struct on_stream {
  using space = pith::device_space;
  cudaStream_t stream_;
  cudaStream_t stream() const { return stream_; }
};
static_assert(pith::exchanges<pith::nccl_communicator, on_stream> &&
              pith::broadcasts<pith::nccl_communicator, on_stream>);

/// NCCL does not serve host memory, and says so by having no such call.
struct on_host {
  using space = pith::host_space;
};
static_assert(!pith::gathers<pith::nccl_communicator, on_host> && !pith::reduces<pith::nccl_communicator, on_host>);

}  // namespace

TEST_CASE("one rank receives what it sent") {
  ncclComm_t raw = nullptr;
  int device = 0;
  REQUIRE(ncclCommInitAll(&raw, 1, &device) == ncclSuccess);
  {
    auto comm = pith::nccl_communicator(raw);
    auto const exec = on_stream{nullptr};
    std::vector<float> const sent = {1, -2, 3};
    float* x = nullptr;
    REQUIRE(cudaMalloc(&x, 2 * sent.size() * sizeof(float)) == cudaSuccess);
    REQUIRE(cudaMemcpy(x, sent.data(), sent.size() * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess);
    comm.all_reduce(exec, pith::device_span<float>(x, 3), pith::reduction::sum).wait(exec);
    auto* const bytes = reinterpret_cast<std::byte*>(x);
    comm.all_gather(exec, pith::device_span<std::byte const>(bytes, 12), pith::device_span<std::byte>(bytes + 12, 12))
        .wait(exec);
    comm.broadcast(exec, pith::device_span<std::byte>(bytes, 12), 0).wait(exec);
    auto got = std::vector<float>(3);
    REQUIRE(cudaMemcpy(got.data(), x + 3, 12, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(got == sent);
    CHECK(comm.size() == 1);
    cudaFree(x);
  }
  ncclCommDestroy(raw);
}
