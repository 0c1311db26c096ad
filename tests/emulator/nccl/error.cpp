// tests/emulator/nccl/error.cpp — results of calls, in words.
#include "nccl/error.hpp"

#include <cstdio>

namespace emulator::nccl {

namespace {

std::string last_error;

}  // namespace

char const* name_of(operation what) {
  constexpr char const* names[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
                                   "ncclBroadcast", "ncclSend",      "ncclRecv"};
  return names[static_cast<int>(what)];
}

char const* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return "int8";
    case ncclUint8: return "uint8";
    case ncclInt32: return "int32";
    case ncclFloat16: return "float16";
    case ncclFloat32: return "float32";
    case ncclFloat64: return "float64";
    case ncclBfloat16: return "bfloat16";
    default: return "another type";
  }
}

ncclResult_t report(ncclResult_t code, std::string const& why) {
  std::fprintf(stderr, "emulator: nccl: %s\n", why.c_str());
  last_error = why;
  return code;
}

}  // namespace emulator::nccl

char const* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}
char const* ncclGetLastError(ncclComm_t) { return emulator::nccl::last_error.c_str(); }
