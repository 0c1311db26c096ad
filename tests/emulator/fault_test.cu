// tests/emulator/fault_test.cu — each fault that the emulator must report, where it is; and none where there is none.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "emulator/apart.hpp"

extern "C" void** __cudaRegisterFatBinary(void* wrapper);
extern "C" void __cudaRegisterFunction(void** fat, char const* host, char* device, char const* name, int, uint3*,
                                       uint3*, dim3*, dim3*, int*);

namespace {

// The last threads of the last block do what is at fault, so that a report has to count. Each kernel is followed by the
// line of its fault.
constexpr unsigned blocks = 3, threads = 64;
__device__ bool is_last() { return blockIdx.x == blocks - 1 && threadIdx.x == threads - 1; }

__global__ void write_at(unsigned* p, unsigned n) {
  if (is_last()) p[n] = 1;
}
constexpr int write_at_line = __LINE__ - 2;

__global__ void load_vector(float* p, unsigned first) {
  if (!is_last()) return;
  auto const v = *reinterpret_cast<float4 const*>(p + first);
  p[0] = v.x + v.y + v.z + v.w;
}
constexpr int load_vector_line = __LINE__ - 3;

__global__ void read_shared(unsigned* p, unsigned n) {
  __shared__ unsigned values[threads];
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (is_last()) p[0] = values[n];
}
constexpr int read_shared_line = __LINE__ - 2;

__global__ void sum_shared(unsigned* p, unsigned written) {
  __shared__ unsigned values[threads];
  if (threadIdx.x < written) values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (is_last()) p[0] = values[threadIdx.x];
}
constexpr int sum_shared_line = __LINE__ - 2;

__global__ void copy(unsigned* p, unsigned from) {
  if (is_last()) p[0] = p[from];
}
constexpr int copy_line = __LINE__ - 2;

__global__ void wait_apart(unsigned* p, unsigned divided) {
  if (blockIdx.x != blocks - 1) return;
  if (threadIdx.x < divided) {
    __syncthreads();
    if (is_last()) p[0] = 1;
  } else {
    __syncthreads();
    if (is_last()) p[1] = 1;
  }
}
constexpr int wait_apart_line = __LINE__ - 4;

__global__ void end_early(unsigned* p, unsigned ended) {
  if (blockIdx.x != blocks - 1 || threadIdx.x == ended) return;
  auto const value = __shfl_sync(~0u, threadIdx.x, 3);
  if (is_last()) p[0] = value;
}
constexpr int end_early_line = __LINE__ - 3;

__global__ void mirror(unsigned* p, bool waits) {
  __shared__ unsigned values[threads];
  if (blockIdx.x != blocks - 1) return;
  values[threadIdx.x] = 0;
  __syncthreads();
  values[threadIdx.x] = threadIdx.x;
  if (waits) __syncthreads();
  p[threadIdx.x] = values[threads - 1 - threadIdx.x];
}
constexpr int mirror_line = __LINE__ - 4;

__global__ void pass_on(unsigned* p, bool waits) {
  if (blockIdx.x != blocks - 1) return;
  if (threadIdx.x == 0) p[0] = 1;
  if (waits) __syncthreads();
  if (is_last()) p[1] = p[0];
}
constexpr int pass_on_line = __LINE__ - 2;

enum fences : unsigned { before = 1, after = 2 };

/// The last block to arrive adds up what each wrote to p[1], p[2], ...
__global__ void sum_of_blocks(unsigned* p, unsigned has) {
  p[1 + blockIdx.x] = blockIdx.x;
  if (has & before) __threadfence();
  auto const arrived = atomicAdd(p, 1u) + 1;
  if (has & after) __threadfence();
  if (arrived == blocks)
    for (unsigned b = 0; b < blocks; ++b) p[0] += p[1 + b];
}
constexpr int sum_of_blocks_line = __LINE__ - 2;

__global__ void round_to_tf32(unsigned* p, float value) {
  if (is_last()) asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(p[0]) : "f"(value));
}
constexpr int round_to_tf32_line = __LINE__ - 2;

constexpr std::size_t allocated = 1024 * sizeof(unsigned);

enum class first { written, unwritten };

/// Runs a kernel on memory of the device, in a process of its own. Its status is the error of the kernel.
template <class T, class A>
apart::outcome run(void (*kernel)(T*, A), A argument, first is = first::written, unsigned n = threads) {
  return apart::run([&] {
    T* p = nullptr;
    cudaMalloc(&p, allocated);
    if (is == first::written) cudaMemset(p, 0, allocated);
    kernel<<<blocks, n>>>(p, argument);
    auto const status = cudaDeviceSynchronize();
    cudaFree(p);
    return static_cast<int>(status);
  });
}

/// Whether a report has these and the kernel, block, thread, instruction and source line.
void check_report(apart::outcome const& seen, std::string const& what, std::string const& kernel,
                  std::string const& instruction, int line, unsigned thread = threads - 1) {
  auto const number = std::to_string(thread);
  INFO(seen.text);
  CHECK(seen.says("^emulator: " + what));
  CHECK(seen.says("\n  kernel \\(anonymous namespace\\)::" + kernel + "\\(.*\\)\n"));
  CHECK(seen.says("\n  block  2 \\(2, 0, 0\\)\n"));
  CHECK(seen.says("\n  thread " + number + " \\(" + number + ", 0, 0\\)\n"));
  CHECK(seen.says("\n  PTX    line [0-9]+: .*" + instruction));
  CHECK(seen.says("\n  (source|       inlined at) .*emulator/fault_test.cu:" + std::to_string(line) + "\n"));
}
bool ended_with(apart::outcome const& seen, cudaError_t error) {
  return WIFEXITED(seen.status) && WEXITSTATUS(seen.status) == (static_cast<int>(error) & 0xff);
}

}  // namespace

TEST_CASE("a write past an allocation is reported") {
  CHECK(run(write_at, 1023u).is_clean());
  auto const seen = run(write_at, 1024u);
  check_report(seen, "illegal address 0x[0-9a-f]+: 4 bytes written at byte 4096 of an allocation of 4096 bytes",
               "write_at", "st.global.u32", write_at_line);
  CHECK(ended_with(seen, cudaErrorIllegalAddress));
}

TEST_CASE("an access of memory that was freed is reported") {
  auto const seen = apart::run([] {
    unsigned* p = nullptr;
    cudaMalloc(&p, allocated);
    cudaFree(p);
    write_at<<<blocks, threads>>>(p, 0);
    return static_cast<int>(cudaDeviceSynchronize());
  });
  check_report(seen, "illegal address 0x[0-9a-f]+: 4 bytes written", "write_at", "st.global.u32", write_at_line);
}

TEST_CASE("a vector that is not aligned is reported") {
  CHECK(run(load_vector, 4u).is_clean());
  auto const seen = run(load_vector, 1u);
  check_report(seen, "misaligned address 0x[0-9a-f]+4 of 16 bytes", "load_vector", "ld.global.v4.f32",
               load_vector_line);
  CHECK(ended_with(seen, cudaErrorMisalignedAddress));
}

TEST_CASE("a read past shared memory is reported") {
  CHECK(run(read_shared, threads - 1).is_clean());
  check_report(run(read_shared, threads),
               "illegal address 0x[0-9a-f]+: 4 bytes read at byte 256 of 256 bytes of shared memory", "read_shared",
               "ld.shared.u32", read_shared_line);
}

TEST_CASE("a read of global memory that nothing wrote is reported") {
  CHECK(run(copy, 1023u).is_clean());
  check_report(run(copy, 1023u, first::unwritten), "uninitialised read of 4 bytes at 0x[0-9a-f]+", "copy",
               "ld.global.u32", copy_line);
}

TEST_CASE("a read of shared memory that nothing wrote is reported") {
  CHECK(run(sum_shared, threads).is_clean());
  check_report(run(sum_shared, threads - 1), "uninitialised read of 4 bytes at 0x[0-9a-f]+", "sum_shared",
               "ld.shared.u32", sum_shared_line);
}

TEST_CASE("threads that wait at different barriers are reported") {
  CHECK(run(wait_apart, threads).is_clean());
  check_report(run(wait_apart, threads / 2), "divergent barrier: thread [0-9]+ waits at PTX line [0-9]+", "wait_apart",
               "bar.sync", wait_apart_line, threads / 2);
}

TEST_CASE("a shuffle with a lane that has ended is reported") {
  CHECK(run(end_early, threads).is_clean());
  check_report(run(end_early, 37u), "ended lane: mask 0xffffffff names lane 5, which has ended", "end_early",
               "shfl.sync", end_early_line, 38);
}

TEST_CASE("a race in shared memory is reported, with both accesses") {
  CHECK(run(mirror, true).is_clean());
  check_report(
      run(mirror, false),
      "race: thread 32 of block 2 writes byte 128 of shared memory, which thread 31 of block 2 read at PTX line "
      "[0-9]+ \\(.*fault_test.cu:" +
          std::to_string(mirror_line + 2) + "\\); nothing orders the two",
      "mirror", "st.shared.u32", mirror_line, 32);
}

TEST_CASE("a race of a block in global memory is reported") {
  CHECK(run(pass_on, true).is_clean());
  check_report(
      run(pass_on, false),
      "race: thread 63 of block 2 reads byte 0 of an allocation of 4096 bytes, which thread 0 of block 2 wrote at "
      "PTX line [0-9]+ \\(.*fault_test.cu:" +
          std::to_string(pass_on_line - 2) + "\\); nothing orders the two",
      "pass_on", "ld.global.u32", pass_on_line);
}

TEST_CASE("a race between blocks, for want of a fence before or after the atomic operation, is reported") {
  CHECK(run(sum_of_blocks, before | after, first::written, 1).is_clean());
  for (auto const too_few : {0u, unsigned{before}, unsigned{after}}) {
    check_report(
        run(sum_of_blocks, too_few, first::written, 1),
        "race: thread 0 of block 2 reads byte [04] of an allocation of 4096 bytes, which thread 0 of block [01] wrote",
        "sum_of_blocks", "ld.global.u32", sum_of_blocks_line, 0);
  }
}

TEST_CASE("memory that is left at the end is reported, and the program fails") {
  auto const seen = apart::run([] {
    void* p = nullptr;
    return static_cast<int>(cudaMalloc(&p, 1000));
  });
  CHECK(seen.says("^emulator: leak: memory of device 0 that was not freed: 1000 bytes in 1 allocations\n$"));
  CHECK(WEXITSTATUS(seen.status) == 1);
}

TEST_CASE("the host that follows a device pointer ends as it does with a GPU") {
  auto const seen = apart::run([] {
    int* p = nullptr;
    cudaMalloc(&p, sizeof *p);
    cudaMemset(p, 0, sizeof *p);
    return *static_cast<int volatile*>(p);
  });
  CHECK(WIFSIGNALED(seen.status));
  CHECK(WTERMSIG(seen.status) == SIGSEGV);
}

TEST_CASE("an instruction that is lacking stops the kernel with its text") {
  check_report(run(round_to_tf32, 1.0f), "the emulator lacks the instruction 'cvt.rna.tf32.f32 .*'", "round_to_tf32",
               "cvt.rna.tf32.f32", round_to_tf32_line);
}

TEST_CASE("compressed PTX stops the program with a message that names the compiler option") {
  auto const seen = apart::run([] {
    static unsigned char fat[80] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 64};  // 64 bytes after a header of 16
    fat[16] = 1, fat[20] = 64;  // one entry of PTX, whose header has 64 bytes
    fat[32] = 1;                // and which is compressed
    auto const* const data = fat;
    static unsigned char wrapper[24];
    std::memcpy(wrapper + 8, &data, sizeof data);
    __cudaRegisterFunction(__cudaRegisterFatBinary(wrapper), "", nullptr, "kernel", -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
    return static_cast<int>(cudaLaunchKernel("", 1, 1, nullptr, 0, nullptr));
  });
  CHECK(seen.text == "emulator: the PTX of the program is compressed: compile it by nvcc --no-compress\n");
  CHECK(WIFSIGNALED(seen.status));
}
