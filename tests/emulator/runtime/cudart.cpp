// cudart.cpp — the calls of the CUDA runtime that pith makes, in place of libcudart.so.13, upon the machine.
//
// Streams are queues. Work runs when it is given, or with PITH_EMULATOR_LATE=1 when something waits for it. Graphs are lists
// in the order of capture.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <set>

#include "ptx/machine.hpp"

namespace emulator { std::uint64_t fused_operations(); }

namespace {

using emulator::function, emulator::module;

struct event_state {
  bool done = false;
  struct queue* by = nullptr;
};

using work = std::function<void()>;

struct graph {
  std::vector<work> nodes;
};

struct queue {
  std::deque<work> waiting;
  graph* capture = nullptr;
  bool origin = false, blocking = true, running = false;
};

struct event {
  std::shared_ptr<event_state> last = std::make_shared<event_state>(event_state{true, nullptr});
  graph* capture = nullptr;
  double at = 0;
};

struct fat_binary {
  std::vector<std::unique_ptr<module>> modules;
  void const* data = nullptr;
  bool parsed = false;
};

std::recursive_mutex lock;
emulator::heap pinned(std::uint64_t{8} << 30, emulator::heap::visible::to_host_too);
emulator::machine device(std::uint64_t{8} << 30, pinned);
thread_local cudaError_t last_error = cudaSuccess;
cudaError_t sticky = cudaSuccess;
std::set<queue*> queues;
queue legacy;
std::map<void const*, std::pair<fat_binary*, std::string>> kernels;
std::map<void const*, std::pair<fat_binary*, std::string>> symbols;

struct configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<configuration> configurations;

cudaError_t fail(cudaError_t e) {
  if (e != cudaSuccess) last_error = e;
  return e;
}

bool flag(char const* name, bool usual) {
  auto const* v = std::getenv(name);
  return v && *v ? std::strcmp(v, "0") != 0 : usual;
}
std::uint64_t number(char const* name, std::uint64_t usual) {
  auto const* v = std::getenv(name);
  return v && *v ? std::strtoull(v, nullptr, 0) : usual;
}

struct start {
  start() {
    emulator::opt.check = flag("PITH_EMULATOR_CHECK", true);
    emulator::opt.undefined = flag("PITH_EMULATOR_UNDEFINED", true);
    emulator::opt.races = static_cast<unsigned>(number("PITH_EMULATOR_RACES", 1));
    emulator::opt.fuse = flag("PITH_EMULATOR_FUSE", false);
    emulator::opt.late = flag("PITH_EMULATOR_LATE", false);
    emulator::opt.stats = flag("PITH_EMULATOR_STATS", false);
    emulator::opt.trace = flag("PITH_EMULATOR_TRACE", false);
    emulator::opt.order = static_cast<unsigned>(number("PITH_EMULATOR_ORDER", 0));
    emulator::opt.quantum = number("PITH_EMULATOR_QUANTUM", 0);
    emulator::opt.resident = static_cast<unsigned>(number("PITH_EMULATOR_RESIDENT", 1));
    queues.insert(&legacy);
  }
  ~start() {
    if (emulator::opt.stats)
      std::fprintf(stderr, "emulator: %llu kernels, %llu instructions, %llu fused\n",
                   static_cast<unsigned long long>(device.kernels()),
                   static_cast<unsigned long long>(device.instructions()),
                   static_cast<unsigned long long>(emulator::fused_operations()));
  }
} const started;

void parse_fat(fat_binary& fat) {
  if (fat.parsed) return;
  fat.parsed = true;
  auto const* p = static_cast<unsigned char const*>(fat.data);
  for (int header = 0; header < 2; ++header) {
    std::uint32_t magic;
    std::uint16_t header_bytes;
    std::uint64_t bytes;
    std::memcpy(&magic, p, 4), std::memcpy(&header_bytes, p + 6, 2), std::memcpy(&bytes, p + 8, 8);
    if (magic != 0xBA55ED50) break;
    p += header_bytes;
    auto const* const end = p + bytes;
    while (p < end) {
      std::uint16_t kind;
      std::uint32_t entry_header, compressed;
      std::uint64_t size, flags;
      std::memcpy(&kind, p, 2), std::memcpy(&entry_header, p + 4, 4), std::memcpy(&size, p + 8, 8);
      std::memcpy(&compressed, p + 16, 4), std::memcpy(&flags, p + 40, 8);
      if (kind == 1) {
        if (compressed != 0 || (flags & 0xf000)) {
          std::fprintf(stderr, "emulator: PTX is compressed: compile with nvcc --no-compress\n");
          std::abort();
        }
        fat.modules.push_back(emulator::parse(reinterpret_cast<char const*>(p + entry_header), device.memory));
      }
      p += entry_header + size;
    }
    if (bytes != 0) break;
  }
  if (fat.modules.empty()) std::fprintf(stderr, "emulator: no PTX: compile for compute_80 or so, not for sm_80\n");
}

function* function_of(void const* host) {
  auto const at = kernels.find(host);
  if (at == kernels.end()) return nullptr;
  parse_fat(*at->second.first);
  for (auto const& m : at->second.first->modules) {
    auto const f = m->functions.find(at->second.second);
    if (f != m->functions.end()) return f->second.get();
  }
  return nullptr;
}

queue& queue_of(cudaStream_t s) {
  if (s == nullptr || s == cudaStreamLegacy || s == cudaStreamPerThread) return legacy;
  return *reinterpret_cast<queue*>(s);
}
event& event_of(cudaEvent_t e) { return *reinterpret_cast<event*>(e); }

void step(queue& q) {
  auto const w = std::move(q.waiting.front());
  q.waiting.pop_front();
  w();
}
void drain(queue& q) {
  while (!q.waiting.empty()) step(q);
}
void drain_all() {
  for (auto* q : queues) drain(*q);
}
/// The legacy stream waits for the blocking ones, and they for it.
void order_legacy(queue& q) {
  if (&q == &legacy) {
    for (auto* o : queues)
      if (o != &legacy && o->blocking && !o->capture) drain(*o);
  } else if (q.blocking) {
    drain(legacy);
  }
}
cudaError_t give(cudaStream_t s, work w) {
  auto& q = queue_of(s);
  if (q.capture) {
    q.capture->nodes.push_back(std::move(w));
    return cudaSuccess;
  }
  order_legacy(q);
  q.waiting.push_back(std::move(w));
  if (!emulator::opt.late) drain(q);
  return sticky;
}

void run(function* f, emulator::dims grid, emulator::dims block, std::size_t shared, std::vector<unsigned char> const& params) {
  if (sticky != cudaSuccess) return;
  try {
    device.run(*f, grid, block, shared, params.data());
  } catch (emulator::fault const& e) {
    std::fprintf(stderr, "emulator: %s\n", e.what());
    using kind = emulator::fault::kind;
    sticky = e.what_kind == kind::misaligned        ? cudaErrorMisalignedAddress
             : e.what_kind == kind::illegal_address ? cudaErrorIllegalAddress
                                                    : cudaErrorLaunchFailure;
  }
}

cudaError_t launch(function* f, dim3 grid, dim3 block, void** args, std::size_t shared, cudaStream_t s) {
  if (!f) return fail(cudaErrorInvalidDeviceFunction);
  auto const threads = std::uint64_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || threads > 1024 || block.z > 64 ||
      grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return fail(cudaErrorInvalidConfiguration);
  if (threads > f->max_threads) return fail(cudaErrorLaunchOutOfResources);
  if (shared > static_cast<std::size_t>(f->most_dynamic_shared)) return fail(cudaErrorInvalidValue);
  auto params = std::vector<unsigned char>();
  for (auto const& p : f->params) params.resize(std::max<std::size_t>(params.size(), p.offset + p.size));
  if (params.size() > 4096) return fail(cudaErrorInvalidValue);
  for (std::size_t k = 0; k < f->params.size(); ++k) std::memcpy(params.data() + f->params[k].offset, args[k], f->params[k].size);
  return fail(give(s, [f, grid, block, shared, params] { run(f, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, params); }));
}

/// Where bytes are: in a heap, or elsewhere on the host.
emulator::heap* heap_of(void const* p) {
  auto const address = reinterpret_cast<std::uint64_t>(p);
  for (auto* h : {&device.memory, &pinned})
    if (h->spans(address, 1)) return h;
  return nullptr;
}
unsigned char* host_bytes(void const* p) {
  auto const* const h = heap_of(p);
  return h ? h->bytes(p) : static_cast<unsigned char*>(const_cast<void*>(p));
}
bool is_pageable(void const* p) { return heap_of(p) == nullptr; }
bool on_device(void const* p, std::size_t n) {
  auto const* const h = heap_of(p);
  return h && h->holds(p, n);
}

void move_bytes(void* to, void const* from, std::size_t n) {
  std::memmove(host_bytes(to), host_bytes(from), n);
  auto* const written = heap_of(to);
  auto const* const read = heap_of(from);
  if (written && read) written->define_as(to, *read, from, n);
  else if (written) written->define(to, n);
}
void fill_bytes(void* to, int value, std::size_t n) {
  std::memset(host_bytes(to), value, n);
  heap_of(to)->define(to, n);
}

cudaError_t copy(void* to, void const* from, std::size_t n, cudaMemcpyKind kind, cudaStream_t s) {
  if (n == 0) return sticky;
  if ((kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) && !on_device(to, n)) return fail(cudaErrorInvalidValue);
  if ((kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) && !on_device(from, n)) return fail(cudaErrorInvalidValue);
  auto& q = queue_of(s);
  if (kind == cudaMemcpyHostToDevice && is_pageable(from) && !q.capture) {
    auto staged = std::make_shared<std::vector<unsigned char>>(static_cast<unsigned char const*>(from), static_cast<unsigned char const*>(from) + n);
    return fail(give(s, [=] { move_bytes(to, staged->data(), n); }));
  }
  auto const status = give(s, [=] { move_bytes(to, from, n); });
  if (kind == cudaMemcpyDeviceToHost && is_pageable(to) && !q.capture) drain(q);
  return fail(status == cudaSuccess ? sticky : status);
}

}  // namespace

#define GUARD std::lock_guard<std::recursive_mutex> const guard(lock)

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  GUARD;
  auto* const fat = new fat_binary;
  std::memcpy(&fat->data, static_cast<char const*>(wrapper) + 8, 8);
  return reinterpret_cast<void**>(fat);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** fat, char const* host, char*, char const* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  GUARD;
  kernels[host] = {reinterpret_cast<fat_binary*>(fat), name};
}
void __cudaRegisterVar(void** fat, char* host, char*, char const* name, int, size_t, int, int) {
  GUARD;
  symbols[host] = {reinterpret_cast<fat_binary*>(fat), name};
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  auto const c = configurations.back();
  configurations.pop_back();
  *grid = c.grid, *block = c.block, *shared = c.shared, *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, void const* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t s) {
  GUARD;
  return launch(function_of(reinterpret_cast<void const*>(kernel)), grid, block, args, shared, s);
}
cudaError_t cudaLaunchKernel(void const* host, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t s) {
  GUARD;
  return launch(function_of(host), grid, block, args, shared, s);
}
cudaError_t cudaFuncSetAttribute(void const* host, cudaFuncAttribute attribute, int value) {
  GUARD;
  auto* const f = function_of(host);
  if (!f) return fail(cudaErrorInvalidDeviceFunction);
  emulator::decode(*f);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value + f->shared_bytes > 227 * 1024) return fail(cudaErrorInvalidValue);
    f->most_dynamic_shared = value;
  }
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, void const* host) {
  GUARD;
  auto* const f = function_of(host);
  if (!f) return fail(cudaErrorInvalidDeviceFunction);
  emulator::decode(*f);
  *a = {};
  a->sharedSizeBytes = f->shared_bytes, a->localSizeBytes = f->local_bytes;
  a->maxThreadsPerBlock = static_cast<int>(f->max_threads), a->numRegs = 32, a->ptxVersion = 80, a->binaryVersion = 80;
  a->maxDynamicSharedSizeBytes = f->most_dynamic_shared;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void const*, int threads, size_t) { *n = 2048 / (threads < 64 ? 64 : threads); return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, void const* f, int threads, size_t s, unsigned) { return cudaOccupancyMaxActiveBlocksPerMultiprocessor(n, f, threads, s); }

cudaError_t cudaGetDeviceCount(int* n) { *n = 1; return cudaSuccess; }
cudaError_t cudaGetDevice(int* d) { *d = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int d) { return d == 0 ? cudaSuccess : fail(cudaErrorInvalidDevice); }
cudaError_t cudaDriverGetVersion(int* v) { *v = 13000; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* v) { *v = 13000; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  std::memset(p, 0, sizeof *p);
  std::strcpy(p->name, "PTX emulator");
  p->major = 8, p->minor = 0, p->multiProcessorCount = 8, p->warpSize = 32, p->maxThreadsPerBlock = 1024;
  p->sharedMemPerBlock = 48 * 1024, p->sharedMemPerBlockOptin = 227 * 1024, p->totalGlobalMem = device.memory.capacity();
  p->maxThreadsPerMultiProcessor = 2048, p->l2CacheSize = 1 << 20;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int) {
  switch (a) {
    case cudaDevAttrComputeCapabilityMajor: *v = 8; break;
    case cudaDevAttrComputeCapabilityMinor: *v = 0; break;
    case cudaDevAttrMultiProcessorCount: *v = 8; break;
    case cudaDevAttrMaxThreadsPerBlock: *v = 1024; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *v = 2048; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *v = 48 * 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *v = 227 * 1024; break;
    case cudaDevAttrWarpSize: *v = 32; break;
    case cudaDevAttrMaxGridDimX: *v = 0x7fffffff; break;
    default: *v = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* most) { *least = 0, *most = -5; return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) { *free_bytes = device.memory.capacity() - device.memory.used(), *total = device.memory.capacity(); return cudaSuccess; }

cudaError_t cudaGetLastError() { auto const e = last_error; last_error = sticky; return e; }
cudaError_t cudaPeekAtLastError() { return last_error; }
char const* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorMisalignedAddress: return "misaligned address";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorLaunchOutOfResources: return "too many resources requested for launch";
    case cudaErrorNotReady: return "device not ready";
    default: return "another error";
  }
}
char const* cudaGetErrorName(cudaError_t e) { return cudaGetErrorString(e); }

cudaError_t cudaMalloc(void** p, size_t n) {
  GUARD;
  *p = nullptr;
  if (n == 0) return cudaSuccess;
  *p = device.memory.allocate(n, "an allocation");
  return *p ? sticky : fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* p) {
  GUARD;
  if (!p) return cudaSuccess;
  drain_all();
  return device.memory.release(p) ? sticky : fail(cudaErrorInvalidValue);
}
cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t) { return cudaMalloc(p, n); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
cudaError_t cudaMallocHost(void** p, size_t n) {
  GUARD;
  *p = pinned.allocate(n, "pinned memory");
  if (!*p) return fail(cudaErrorMemoryAllocation);
  pinned.define(*p, n);  // what the host writes is not seen
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  GUARD;
  drain_all();
  return !p || pinned.release(p) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, size_t n, cudaMemcpyKind kind, cudaStream_t s) { GUARD; return copy(to, from, n, kind, s); }
cudaError_t cudaMemcpy(void* to, void const* from, size_t n, cudaMemcpyKind kind) {
  GUARD;
  auto const e = copy(to, from, n, kind, nullptr);
  drain(legacy);
  return e;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t n, cudaStream_t s) {
  GUARD;
  if (n && !on_device(to, n)) return fail(cudaErrorInvalidValue);
  return fail(give(s, [=] { if (n) fill_bytes(to, value, n); }));
}
cudaError_t cudaMemset(void* to, int value, size_t n) { return cudaMemsetAsync(to, value, n, nullptr); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int) {
  GUARD;
  auto* const q = new queue;
  q->blocking = !(flags & cudaStreamNonBlocking);
  queues.insert(q);
  *s = reinterpret_cast<cudaStream_t>(q);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) { return cudaStreamCreateWithPriority(s, flags, 0); }
cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithPriority(s, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  GUARD;
  auto* const q = &queue_of(s);
  drain(*q);
  queues.erase(q);
  delete q;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  GUARD;
  auto& q = queue_of(s);
  if (q.capture) return fail(cudaErrorStreamCaptureUnsupported);
  drain(q);
  return fail(sticky);
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  GUARD;
  auto& q = queue_of(s);
  if (q.waiting.empty()) return fail(sticky);
  step(q);
  return fail(q.waiting.empty() ? sticky : cudaErrorNotReady);
}
cudaError_t cudaDeviceSynchronize() { GUARD; drain_all(); return fail(sticky); }
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  GUARD;
  auto& q = queue_of(s);
  auto& v = event_of(e);
  if (v.capture) {
    if (q.capture && q.capture != v.capture) return fail(cudaErrorStreamCaptureMerge);
    q.capture = v.capture;
    return cudaSuccess;
  }
  auto const until = v.last;
  return fail(give(s, [until] { while (!until->done && until->by) step(*until->by); }));
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { *e = reinterpret_cast<cudaEvent_t>(new event); return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t e) { delete &event_of(e); return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  GUARD;
  auto& v = event_of(e);
  auto& q = queue_of(s);
  v.capture = q.capture;
  if (q.capture) return cudaSuccess;
  auto const state = std::make_shared<event_state>(event_state{false, &q});
  v.last = state;
  return fail(give(s, [state] { state->done = true; }));
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned) { return cudaEventRecord(e, s); }
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  GUARD;
  auto const until = event_of(e).last;
  while (!until->done && until->by) step(*until->by);
  return fail(sticky);
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  GUARD;
  auto const until = event_of(e).last;
  if (!until->done && until->by) step(*until->by);
  return fail(until->done ? sticky : cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) { *ms = 1; return cudaSuccess; }

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  GUARD;
  auto& q = queue_of(s);
  if (q.capture || &q == &legacy) return fail(cudaErrorStreamCaptureUnsupported);
  q.capture = new graph;
  q.origin = true;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* g) {
  GUARD;
  auto& q = queue_of(s);
  if (!q.capture || !q.origin) return fail(cudaErrorIllegalState);
  auto* const made = q.capture;
  for (auto* o : queues)
    if (o->capture == made) o->capture = nullptr;
  q.origin = false;
  *g = reinterpret_cast<cudaGraph_t>(made);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  *status = queue_of(s).capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t*, cudaGraphNode_t const**, cudaGraphEdgeData const**, size_t*) {
  if (id) *id = 1;
  return cudaStreamIsCapturing(s, status);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* x, cudaGraph_t g, unsigned long long) {
  *x = reinterpret_cast<cudaGraphExec_t>(new graph(*reinterpret_cast<graph*>(g)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s) {
  GUARD;
  auto const nodes = std::make_shared<graph>(*reinterpret_cast<graph*>(x));
  return fail(give(s, [nodes] { for (auto const& n : nodes->nodes) n(); }));
}
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t*, size_t* n) { *n = reinterpret_cast<graph*>(g)->nodes.size(); return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) { delete reinterpret_cast<graph*>(x); return cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t g) { delete reinterpret_cast<graph*>(g); return cudaSuccess; }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, void const* p) {
  GUARD;
  *a = {};
  a->type = !on_device(p, 1)          ? cudaMemoryTypeUnregistered
            : heap_of(p) == &pinned ? cudaMemoryTypeHost
                                    : cudaMemoryTypeDevice;
  a->devicePointer = const_cast<void*>(p);
  return cudaSuccess;
}

}  // extern "C"
