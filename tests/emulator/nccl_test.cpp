// tests/emulator/nccl_test.cpp — NCCL between emulated devices: what a call waits for, and what it refuses.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <nccl.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace {

/// A rank with its device, a stream and a few floats, as one thread drives several.
struct rank {
  rank(ncclComm_t of, int number, std::vector<float> const& values) : comm(of), device(number), n(values.size()) {
    enter();
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaMalloc(&x, n * sizeof(float)) == cudaSuccess);
    REQUIRE(cudaMemcpy(x, values.data(), n * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  rank(rank const&) = delete;
  ~rank() {
    enter();
    if (comm != nullptr) ncclCommDestroy(comm);
    cudaFree(x), cudaStreamDestroy(stream);
  }

  void enter() const { REQUIRE(cudaSetDevice(device) == cudaSuccess); }
  bool is_idle() const {
    auto const is_done = cudaStreamQuery(stream) == cudaSuccess;
    cudaGetLastError();
    return is_done;
  }
  ncclResult_t sum(std::size_t count) const { return ncclAllReduce(x, x, count, ncclFloat32, ncclSum, comm, stream); }
  std::vector<float> values() const {
    enter();
    auto all = std::vector<float>(n);
    REQUIRE(cudaMemcpy(all.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
    return all;
  }
  ncclResult_t error() const {
    auto found = ncclSuccess;
    ncclCommGetAsyncError(comm, &found);
    return found;
  }

  ncclComm_t comm;
  int device;
  std::size_t n;
  cudaStream_t stream = nullptr;
  void* x = nullptr;
};

std::vector<ncclComm_t> made(int ranks) {
  auto all = std::vector<ncclComm_t>(static_cast<std::size_t>(ranks));
  REQUIRE(ncclCommInitAll(all.data(), ranks, nullptr) == ncclSuccess);
  return all;
}

/// Two ranks of three floats.
struct pair_of_ranks {
  std::vector<ncclComm_t> comms = made(2);
  rank first = {comms[0], 0, {1, 2, 3}}, second = {comms[1], 1, {10, 20, 30}};
};

}  // namespace

TEST_CASE("a call is under way until all ranks have made it") {
  auto const own = pair_of_ranks();
  CHECK(own.first.sum(3) == ncclSuccess);
  CHECK_FALSE(own.first.is_idle());
  CHECK(own.second.sum(3) == ncclSuccess);
  CHECK((own.first.is_idle() && own.second.is_idle()));
  CHECK(own.first.values() == std::vector<float>{11, 22, 33});
  CHECK(own.second.values() == std::vector<float>{11, 22, 33});
}

TEST_CASE("a send is under way until it is received") {
  auto const own = pair_of_ranks();
  CHECK(ncclSend(own.first.x, 3, ncclFloat32, 1, own.first.comm, own.first.stream) == ncclSuccess);
  CHECK_FALSE(own.first.is_idle());
  CHECK(ncclRecv(own.second.x, 3, ncclFloat32, 0, own.second.comm, own.second.stream) == ncclSuccess);
  CHECK((own.first.is_idle() && own.second.is_idle()));
  CHECK(own.second.values() == std::vector<float>{1, 2, 3});
}

TEST_CASE("calls of a group begin at its end and go on together") {
  auto const own = pair_of_ranks();
  auto const swap = [](rank const& r, int peer) {
    CHECK(ncclSend(r.x, 1, ncclFloat32, peer, r.comm, r.stream) == ncclSuccess);
    CHECK(ncclRecv(static_cast<float*>(r.x) + 2, 1, ncclFloat32, peer, r.comm, r.stream) == ncclSuccess);
  };
  CHECK(ncclGroupStart() == ncclSuccess);
  swap(own.first, 1), swap(own.second, 0);
  CHECK((own.first.is_idle() && own.second.is_idle()));
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(own.first.values() == std::vector<float>{1, 2, 10});
  CHECK(own.second.values() == std::vector<float>{10, 20, 1});
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("sums run in the order of the ranks, whichever comes last") {
  for (auto const& [values, expected] :
       {std::pair(std::vector<float>{1e8f, 1, -1e8f}, 0.0f), std::pair(std::vector<float>{1e8f, -1e8f, 1}, 1.0f)}) {
    auto const comms = made(3);
    rank const a(comms[0], 0, {values[0]}), b(comms[1], 1, {values[1]}), c(comms[2], 2, {values[2]});
    for (auto const* r : {&c, &a, &b}) CHECK(r->sum(1) == ncclSuccess);
    for (auto const* r : {&a, &b, &c}) CHECK(r->values() == std::vector<float>{expected});
  }
}

TEST_CASE("arguments that disagree are an asynchronous error of all ranks") {
  auto const own = pair_of_ranks();
  CHECK(own.first.sum(3) == ncclSuccess);
  CHECK(own.first.error() == ncclSuccess);
  CHECK(own.second.sum(2) == ncclSuccess);
  CHECK((own.first.is_idle() && own.second.is_idle()));
  CHECK(own.first.error() == ncclInvalidUsage);
  CHECK(own.second.error() == ncclInvalidUsage);
  CHECK(std::string(ncclGetLastError(own.first.comm)) ==
        "rank 0 calls ncclAllReduce of 3 float32, rank 1 ncclAllReduce of 2 float32");
  CHECK(own.first.values() == std::vector<float>{1, 2, 3});
}

TEST_CASE("a call with an unusable buffer, peer, stream or reduction is refused at once") {
  auto const own = pair_of_ranks();
  auto const& [comms, first, second] = own;
  CHECK(first.sum(4) == ncclInvalidArgument);  // of 3
  CHECK(ncclSend(second.x, 3, ncclFloat32, 1, first.comm, first.stream) == ncclInvalidArgument);
  CHECK(ncclSend(first.x, 3, ncclFloat32, 2, first.comm, first.stream) == ncclInvalidArgument);
  CHECK(ncclSend(first.x, 3, ncclFloat32, 1, first.comm, second.stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(first.x, first.x, 3, ncclFloat32, ncclProd, first.comm, first.stream) == ncclInvalidArgument);
}

TEST_CASE("two ranks of one device are refused") {
  int const devices[] = {1, 1};
  ncclComm_t comms[2];
  CHECK(ncclCommInitAll(comms, 2, devices) == ncclInvalidUsage);
  CHECK(std::string(ncclGetLastError(nullptr)) == "ranks 0 and 1 are both on device 1");
}

TEST_CASE("a captured call meets the others' in each replay") {
  auto const own = pair_of_ranks();
  cudaGraphExec_t steps[2];
  for (auto const* r : {&own.first, &own.second}) {
    cudaGraph_t graph = nullptr;
    r->enter();
    REQUIRE(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(r->sum(3) == ncclSuccess);
    REQUIRE(cudaStreamEndCapture(r->stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&steps[r->device], graph, 0) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  }
  for (int replay = 0; replay < 2; ++replay) {
    CHECK(cudaGraphLaunch(steps[0], own.first.stream) == cudaSuccess);
    CHECK_FALSE(own.first.is_idle());
    CHECK(cudaGraphLaunch(steps[1], own.second.stream) == cudaSuccess);
  }
  CHECK(own.second.values() == std::vector<float>{22, 44, 66});
  for (auto* s : steps) CHECK(cudaGraphExecDestroy(s) == cudaSuccess);
}

TEST_CASE("parts are ordered by their keys, and a rank may be in none") {
  auto const comms = made(4);
  ncclComm_t parts[4];
  int const colors[] = {3, NCCL_SPLIT_NOCOLOR, 3, 5}, keys[] = {9, 0, 1, 0};
  CHECK(ncclGroupStart() == ncclSuccess);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(ncclCommSplit(comms[r], colors[r], keys[r], &parts[r], nullptr) == ncclSuccess);
  }
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(parts[1] == nullptr);
  auto const place = [&](int r) {
    int number = -1, count = 0;
    CHECK(ncclCommUserRank(parts[r], &number) == ncclSuccess);
    CHECK(ncclCommCount(parts[r], &count) == ncclSuccess);
    return std::pair(number, count);
  };
  CHECK(place(0) == std::pair(1, 2));
  CHECK(place(2) == std::pair(0, 2));
  CHECK(place(3) == std::pair(0, 1));
  for (auto* part : {parts[0], parts[2], parts[3]}) CHECK(ncclCommDestroy(part) == ncclSuccess);
  for (auto* comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("an aborted rank's stream goes on, and others wait on") {
  auto own = pair_of_ranks();
  CHECK(own.first.sum(3) == ncclSuccess);
  CHECK(ncclCommAbort(std::exchange(own.first.comm, nullptr)) == ncclSuccess);
  CHECK(own.first.is_idle());
  CHECK(own.second.sum(3) == ncclSuccess);
  CHECK_FALSE(own.second.is_idle());
  CHECK(ncclCommAbort(std::exchange(own.second.comm, nullptr)) == ncclSuccess);
  CHECK(own.second.is_idle());
  CHECK(own.second.values() == std::vector<float>{10, 20, 30});
}
