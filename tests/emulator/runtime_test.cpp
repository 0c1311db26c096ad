// tests/emulator/runtime_test.cpp — devices, streams, events and graphs of the emulated runtime, in the worst order.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include "emulator/apart.hpp"
#include "runtime/schedule.hpp"

#include <string>
#include <thread>

using emulator::schedule, emulator::turn;

namespace {

/// Work runs when something waits for it, of the newest stream first.
struct late {
  late() {
    schedule::of_process().set_late(true);
    schedule::of_process().take_turns(turn::newest, 0);
  }
  ~late() {
    schedule::of_process().take_turns(turn::oldest, 0);
    schedule::of_process().set_late(false);
  }
};

struct stream {
  explicit stream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&get, flags) == cudaSuccess);
  }
  ~stream() { cudaStreamDestroy(get); }
  cudaStream_t get = nullptr;
};
struct event {
  event() { REQUIRE(cudaEventCreateWithFlags(&get, cudaEventDisableTiming) == cudaSuccess); }
  ~event() { cudaEventDestroy(get); }
  cudaEvent_t get = nullptr;
};

/// What host functions of streams have written.
std::string written;

template <char C>
void write(cudaStream_t on) {
  REQUIRE(cudaLaunchHostFunc(
              on, [](void*) { written += C; }, nullptr) == cudaSuccess);
}
std::string taken() { return std::exchange(written, {}); }

cudaGraphExec_t instantiated(cudaGraph_t graph) {
  cudaGraphExec_t made = nullptr;
  REQUIRE(cudaGraphInstantiate(&made, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  return made;
}

}  // namespace

TEST_CASE("each thread has a current device") {
  REQUIRE(cudaSetDevice(2) == cudaSuccess);
  std::jthread([] {
    int device = -1;
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(device == 0);
  }).join();
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 100) == cudaSuccess);
  auto found = cudaPointerAttributes();
  CHECK(cudaPointerGetAttributes(&found, memory) == cudaSuccess);
  CHECK(found.device == 2);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("an event and a stream of different devices are refused") {
  auto const of_first = event();
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  {
    auto const of_second = stream();
    CHECK(cudaEventRecord(of_first.get, of_second.get) == cudaErrorInvalidResourceHandle);
  }
  CHECK(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("streams run in the order of events, and in no other") {
  auto const is_late = late();
  auto const a = stream(), b = stream();
  auto const between = event();
  write<'a'>(a.get), write<'b'>(b.get);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(taken() == "ba");
  write<'a'>(a.get);
  CHECK(cudaEventRecord(between.get, a.get) == cudaSuccess);
  write<'c'>(a.get);
  CHECK(cudaStreamWaitEvent(b.get, between.get, 0) == cudaSuccess);
  write<'b'>(b.get);
  CHECK(cudaStreamSynchronize(b.get) == cudaSuccess);
  CHECK(taken() == "ab");
  CHECK(cudaStreamSynchronize(a.get) == cudaSuccess);
  CHECK(taken() == "c");
}

TEST_CASE("the default stream waits for blocking streams, and they for it") {
  auto const is_late = late();
  auto const blocking = stream(cudaStreamDefault), free = stream();
  write<'a'>(blocking.get), write<'b'>(nullptr), write<'c'>(blocking.get), write<'d'>(free.get);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(taken() == "dabc");
}

TEST_CASE("a query of unfinished work returns not ready and lets the work advance") {
  auto const is_late = late();
  auto const a = stream();
  auto const end = event();
  write<'a'>(a.get), write<'b'>(a.get);
  CHECK(cudaEventRecord(end.get, a.get) == cudaSuccess);
  CHECK(cudaEventQuery(end.get) == cudaErrorNotReady);
  CHECK(taken() == "a");
  CHECK(cudaStreamQuery(a.get) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(a.get) == cudaSuccess);
  CHECK(cudaEventQuery(end.get) == cudaSuccess);
  CHECK(taken() == "b");
}

TEST_CASE("a host function must not call the runtime") {
  static auto status = cudaSuccess;
  auto const a = stream();
  CHECK(cudaLaunchHostFunc(
            a.get, [](void*) { status = cudaDeviceSynchronize(); }, nullptr) == cudaSuccess);
  CHECK(status == cudaErrorNotPermitted);
}

TEST_CASE("a graph replays two streams in the order of their events") {
  auto const is_late = late();
  auto const a = stream(), b = stream();
  auto const forked = event(), joined = event();
  REQUIRE(cudaStreamBeginCapture(a.get, cudaStreamCaptureModeGlobal) == cudaSuccess);
  write<'1'>(a.get);
  CHECK(cudaEventRecord(forked.get, a.get) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(b.get, forked.get, 0) == cudaSuccess);
  write<'2'>(a.get), write<'3'>(b.get);
  CHECK(cudaEventRecord(joined.get, b.get) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(a.get, joined.get, 0) == cudaSuccess);
  write<'4'>(a.get);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(a.get, &graph) == cudaSuccess);
  auto* const steps = instantiated(graph);
  CHECK(taken().empty());
  for (int replay = 0; replay < 2; ++replay) CHECK(cudaGraphLaunch(steps, a.get) == cudaSuccess);
  CHECK(cudaStreamSynchronize(a.get) == cudaSuccess);
  CHECK(taken() == "13241324");
  CHECK(cudaGraphExecDestroy(steps) == cudaSuccess);
}

TEST_CASE("a capture that is not joined, or that waits or allocates, fails") {
  auto const a = stream(), b = stream();
  auto const forked = event();
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(a.get, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(cudaEventRecord(forked.get, a.get) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(b.get, forked.get, 0) == cudaSuccess);
  write<'1'>(b.get);
  CHECK(cudaStreamEndCapture(a.get, &graph) == cudaErrorStreamCaptureUnjoined);
  CHECK(cudaStreamWaitEvent(b.get, forked.get, 0) == cudaErrorCapturedEvent);

  void* memory = nullptr;
  for (auto const call :
       {+[](void** m) { return cudaMalloc(m, 8); }, +[](void**) { return cudaDeviceSynchronize(); }}) {
    REQUIRE(cudaStreamBeginCapture(a.get, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    std::jthread([&] { CHECK(cudaDeviceSynchronize() == cudaSuccess); }).join();  // another thread's
    CHECK(call(&memory) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(a.get, &graph) == cudaErrorStreamCaptureInvalidated);
  }
}

TEST_CASE("a program that leaves memory, streams and events fails with a report of each") {
  auto const left = apart::run([] {
    void* memory = nullptr;
    cudaStream_t s = nullptr;
    cudaEvent_t e = nullptr;
    return cudaMalloc(&memory, 100) + cudaStreamCreate(&s) + cudaEventCreate(&e);
  });
  CAPTURE(left.text);
  CHECK(WEXITSTATUS(left.status) == 1);
  CHECK(left.says("leak: memory of device 0 that was not freed: 100 bytes in 1 allocations"));
  CHECK(left.says("leak: streams that were not destroyed: 1"));
  CHECK(left.says("leak: events that were not destroyed: 1"));
  CHECK(apart::run([] { return 0; }).is_clean());
}
