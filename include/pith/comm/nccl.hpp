// pith/comm/nccl.hpp — ranks of a NCCL communicator, device memory, in the order of the executor's stream.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/error.hpp>

#include <nccl.h>

#include <concepts>

namespace pith::inline v0 {

namespace detail {

inline void check_nccl(ncclResult_t code, char const* what) {
  if (code != ncclSuccess) throw communication_error(sentence("nccl: ", what, ": ", ncclGetErrorString(code)));
}

template <class T>
constexpr ncclDataType_t nccl_type() {
  if constexpr (std::same_as<T, float>) return ncclFloat32;
  if constexpr (std::same_as<T, double>) return ncclFloat64;
  if constexpr (std::same_as<T, half>) return ncclFloat16;
  if constexpr (std::same_as<T, bfloat16>) return ncclBfloat16;
  if constexpr (std::same_as<T, std::int8_t>) return ncclInt8;
  return ncclInt32;
}

}  // namespace detail

/// A device executor on whose stream NCCL can enqueue.
template <class E>
concept streamed = std::same_as<space_of<E>, device_space> && requires(E const& exec) {
  { exec.stream() } -> std::convertible_to<cudaStream_t>;
};

/// The ranks of a NCCL communicator that the caller owns. Nothing waits for the device: a request is stream order.
class nccl_communicator {
 public:
  explicit nccl_communicator(ncclComm_t comm) : comm_(comm) {
    int rank = 0, size = 0;
    detail::check_nccl(ncclCommUserRank(comm, &rank), "ncclCommUserRank");
    detail::check_nccl(ncclCommCount(comm, &size), "ncclCommCount");
    rank_ = static_cast<unsigned>(rank);
    size_ = static_cast<unsigned>(size);
  }

  unsigned rank() const { return rank_; }
  unsigned size() const { return size_; }

  template <streamed E>
  completed all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    detail::require(all.size() == mine.size() * size(), "nccl: all_gather needs room for ", mine.size() * size(),
                    " bytes, got ", all.size());
    detail::check_nccl(ncclAllGather(mine.data(), all.data(), mine.size(), ncclUint8, comm_, exec.stream()),
                       "ncclAllGather");
    return {};
  }

  /// One group of sends and receives.
  template <streamed E>
  completed all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    detail::require(all.size() == mine.size() && mine.size() % size() == 0, "nccl: all_to_all needs room for ",
                    mine.size(), " bytes in ", size(), " equal pieces, got ", all.size());
    auto const n = mine.size() / size();
    detail::check_nccl(ncclGroupStart(), "ncclGroupStart");
    for (unsigned r = 0; r < size(); ++r) {
      auto const peer = static_cast<int>(r);
      detail::check_nccl(ncclSend(mine.data() + r * n, n, ncclUint8, peer, comm_, exec.stream()), "ncclSend");
      detail::check_nccl(ncclRecv(all.data() + r * n, n, ncclUint8, peer, comm_, exec.stream()), "ncclRecv");
    }
    detail::check_nccl(ncclGroupEnd(), "ncclGroupEnd");
    return {};
  }

  template <streamed E, class T>
  completed all_reduce(E const& exec, span<T, device_space> x, reduction how) {
    auto const op = how == reduction::sum ? ncclSum : ncclMax;
    detail::check_nccl(ncclAllReduce(x.data(), x.data(), x.size(), detail::nccl_type<T>(), op, comm_, exec.stream()),
                       "ncclAllReduce");
    return {};
  }

  template <streamed E>
  completed broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    detail::check_nccl(
        ncclBroadcast(x.data(), x.data(), x.size(), ncclUint8, static_cast<int>(root), comm_, exec.stream()),
        "ncclBroadcast");
    return {};
  }

 private:
  ncclComm_t comm_;
  unsigned rank_ = 0, size_ = 0;
};

}  // namespace pith::inline v0
