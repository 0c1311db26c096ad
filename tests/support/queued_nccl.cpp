// tests/support/queued_nccl.cpp — NCCL's calls as pieces of work of a queued stream, matched with other threads'.
#include "support/queued_nccl.hpp"

#include <pith/core/element.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "support/queued_cuda.hpp"

namespace {

using bytes = pith::span<std::byte>;
using const_bytes = pith::span<std::byte const>;

const_bytes read(void const* x, std::size_t n) { return {static_cast<std::byte const*>(x), n}; }
bytes written(void* x, std::size_t n) { return {static_cast<std::byte*>(x), n}; }

template <class Work>
ncclResult_t give(cudaStream_t stream, Work work) {
  stream->give({std::move(work)});
  return ncclSuccess;
}

pith::reduction operation(ncclRedOp_t op) { return op == ncclSum ? pith::reduction::sum : pith::reduction::max; }

/// f(a value of the type).
template <class F>
ncclResult_t as_type(ncclDataType_t type, F const& f) {
  switch (type) {
    case ncclFloat32: return f(float());
    case ncclFloat64: return f(double());
    case ncclFloat16: return f(pith::half());
    case ncclBfloat16: return f(pith::bfloat16());
    case ncclInt32: return f(std::int32_t());
    case ncclInt8: return f(std::int8_t());
    default: return ncclInvalidArgument;
  }
}

}  // namespace

char const* ncclGetErrorString(ncclResult_t) { return "an error of threads"; }
ncclResult_t ncclCommUserRank(ncclComm_t const comm, int* rank) {
  *rank = static_cast<int>(comm->ranks.rank());
  return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t const comm, int* count) {
  *count = static_cast<int>(comm->ranks.size());
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->error;
  return ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int, ncclComm_t* made, ncclConfig_t*) {
  *made = new ncclComm(comm->ranks.split(static_cast<unsigned>(color)));
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  support::queued_device::current().finish_all();
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

ncclResult_t ncclAllGather(void const* mine, void* all, std::size_t n, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return give(stream, [=] { comm->ranks.all_gather(pith::seq, read(mine, n), written(all, n * comm->ranks.size())); });
}
ncclResult_t ncclBroadcast(void const*, void* x, std::size_t n, ncclDataType_t, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return give(stream, [=] { comm->ranks.broadcast(pith::seq, written(x, n), static_cast<unsigned>(root)); });
}
ncclResult_t ncclAllReduce(void const*, void* x, std::size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return as_type(type, [=]<class T>(T) {
    return give(stream,
                [=] { comm->ranks.all_reduce(pith::seq, pith::span<T>(static_cast<T*>(x), n), operation(op)); });
  });
}
ncclResult_t ncclReduceScatter(void const* mine, void* part, std::size_t n, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return as_type(type, [=]<class T>(T) {
    return give(stream, [=] {
      auto const all = pith::span<T const>(static_cast<T const*>(mine), n * comm->ranks.size());
      comm->ranks.reduce_scatter(pith::seq, all, pith::span<T>(static_cast<T*>(part), n), operation(op));
    });
  });
}

ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }
ncclResult_t ncclSend(void const* x, std::size_t n, ncclDataType_t, int to, ncclComm_t comm, cudaStream_t stream) {
  return give(stream, [=] {
    auto const* const first = static_cast<std::byte const*>(x);
    comm->box(comm->ranks.rank(), static_cast<unsigned>(to)).put({first, first + n});
  });
}
ncclResult_t ncclRecv(void* x, std::size_t n, ncclDataType_t, int from, ncclComm_t comm, cudaStream_t stream) {
  return give(stream, [=] {
    auto const letter = comm->box(static_cast<unsigned>(from), comm->ranks.rank()).take();
    std::memcpy(x, letter.data(), std::min(n, letter.size()));
  });
}
