// tests/emulator/nccl/call.cpp — collective calls, sends and receives: their arguments, checked.
#include "nccl/error.hpp"
#include "nccl/group.hpp"
#include "nccl/transfer.hpp"
#include "runtime/device.hpp"
#include "runtime/memory.hpp"

using namespace emulator;
using namespace emulator::nccl;

namespace {

/// The bytes that a call reads and writes, in counts of its elements.
struct extent {
  std::size_t read, written;
};
extent extent_of(arguments const& a, member const& of) {
  std::size_t const ranks = of.all->size();
  switch (a.what) {
    case operation::all_gather: return {a.count, a.count * ranks};
    case operation::reduce_scatter: return {a.count * ranks, a.count};
    case operation::broadcast: return {of.rank == static_cast<unsigned>(a.peer) ? a.count : 0, a.count};
    case operation::send: return {a.count, 0};
    case operation::receive: return {0, a.count};
    default: return {a.count, a.count};
  }
}

bool is_memory(member const& of, void const* first, std::size_t bytes) {
  return bytes == 0 || is_allocated_for(of.device, first, bytes);
}

/// Why a call is refused; nullptr if it is not.
char const* objection(member const& of, cudaStream_t stream, arguments const& a) {
  auto const bytes = bytes_of(a.type);
  auto const reduces = a.what == operation::all_reduce || a.what == operation::reduce_scatter;
  if (bytes == 0) return "a type that the emulator lacks";
  if (reduces && !can_reduce(a.type, a.reduction)) return "a reduction that the emulator lacks";
  if (a.peer < 0 || a.peer >= static_cast<int>(of.all->size())) return "a rank that is not there";
  if (stream_of(stream).device != of.device) return "a stream of another device";
  auto const [read, written] = extent_of(a, of);
  if (!is_memory(of, a.from, read * bytes)) return "bytes to send that are not allocated on the rank's device";
  if (!is_memory(of, a.to, written * bytes)) return "bytes to receive that are not allocated on the rank's device";
  return nullptr;
}

ncclResult_t checked(ncclComm_t comm, cudaStream_t stream, arguments const& a) {
  return entered([&] {
    if (comm == nullptr) return report(ncclInvalidArgument, "no communicator");
    if (auto const* const why = objection(*comm->of, stream, a))
      return report(ncclInvalidArgument, std::string(name_of(a.what)) + ": " + why);
    return issue(comm->of, stream, a);
  });
}

}  // namespace

ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t how,
                           ncclComm_t comm, cudaStream_t stream) {
  return checked(comm, stream, {operation::all_reduce, from, to, count, type, how});
}
ncclResult_t ncclReduceScatter(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t how,
                               ncclComm_t comm, cudaStream_t stream) {
  return checked(comm, stream, {operation::reduce_scatter, from, to, count, type, how});
}
ncclResult_t ncclAllGather(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return checked(comm, stream, {operation::all_gather, from, to, count, type});
}
ncclResult_t ncclBroadcast(void const* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return checked(comm, stream, {operation::broadcast, from, to, count, type, ncclSum, root});
}
ncclResult_t ncclSend(void const* from, std::size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
  return checked(comm, stream, {operation::send, from, nullptr, count, type, ncclSum, to});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream) {
  return checked(comm, stream, {operation::receive, nullptr, to, count, type, ncclSum, from});
}
