// pith/comm/nccl.hpp — ranks of a NCCL communicator, device memory, in the order of the executor's stream.
#pragma once

#include <pith/comm/arguments.hpp>
#include <pith/comm/communicator.hpp>
#include <pith/core/error.hpp>

#include <nccl.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace pith::inline v0 {

namespace detail {

template <class T>
constexpr ncclDataType_t nccl_type() {
  if constexpr (std::same_as<T, float>) return ncclFloat32;
  if constexpr (std::same_as<T, double>) return ncclFloat64;
  if constexpr (std::same_as<T, half>) return ncclFloat16;
  if constexpr (std::same_as<T, bfloat16>) return ncclBfloat16;
  if constexpr (std::same_as<T, std::int8_t>) return ncclInt8;
  return ncclInt32;
}

constexpr ncclRedOp_t nccl_operation(reduction how) { return how == reduction::sum ? ncclSum : ncclMax; }

}  // namespace detail

/// A device executor on whose stream NCCL can enqueue.
template <class E>
concept streamed = std::same_as<space_of<E>, device_space> && requires(E const& exec) {
  { exec.stream() } -> std::convertible_to<cudaStream_t>;
};

/// The ranks of a blocking NCCL communicator that the caller owns, 2.18 or newer. A request is stream order.
///
///   waits    for no device; split waits for the other ranks
///   throws   communication_error: what a call reports, and what went wrong since the call before. There is no
///            deadline: who waits for a stream in vain calls abort() from another thread
class nccl_communicator {
 public:
  explicit nccl_communicator(ncclComm_t comm) : nccl_communicator(comm, false) {}
  nccl_communicator(nccl_communicator&& other) noexcept
      : comm_(std::exchange(other.comm_, nullptr)), is_own_(other.is_own_), rank_(other.rank_), size_(other.size_) {}
  nccl_communicator& operator=(nccl_communicator&&) = delete;
  ~nccl_communicator() {
    if (!is_own_ || comm_ == nullptr) return;
    auto state = ncclSuccess;
    ncclCommGetAsyncError(comm_, &state);
    state == ncclSuccess ? ncclCommDestroy(comm_) : ncclCommAbort(comm_);  // which alone does not wait for lost ranks
  }

  unsigned rank() const { return rank_; }
  unsigned size() const { return size_; }

  /// Throws what went wrong since it was asked last, without waiting for the device.
  void check() const {
    require_usable();
    auto state = ncclSuccess;
    done(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    done(state, "an earlier call");
  }

  /// Ends what is under way, so that streams that wait for a lost rank go on; every later call throws. The NCCL
  /// communicator is gone: its owner must not destroy it.
  void abort() {
    require_usable();
    done(ncclCommAbort(std::exchange(comm_, nullptr)), "ncclCommAbort");
  }

  template <streamed E>
  completed all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_gather(mine.size(), all.size());
    return call("ncclAllGather",
                [&] { return ncclAllGather(mine.data(), all.data(), mine.size(), ncclUint8, comm_, exec.stream()); });
  }

  template <streamed E>
  completed all_gather_v(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all,
                         span<std::size_t const> sizes) {
    arguments().all_gather_v(mine.size(), all.size(), sizes);
    return grouped([&, offset = std::size_t{0}](unsigned r) mutable {
      auto const at = std::exchange(offset, offset + sizes[r]);
      return swap(exec, mine, r, all.subspan(at, sizes[r]), r);
    });
  }

  template <streamed E>
  completed all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    auto const n = mine.size() / size();
    return grouped([&](unsigned r) { return swap(exec, mine.subspan(r * n, n), r, all.subspan(r * n, n), r); });
  }

  template <streamed E>
  completed all_to_all_v(E const& exec, span_on<E, std::byte const> mine, span<std::size_t const> sizes_to,
                         span_on<E, std::byte> all, span<std::size_t const> sizes_from) {
    arguments().all_to_all_v(mine.size(), sizes_to, all.size(), sizes_from);
    return grouped([&, sent = std::size_t{0}, received = std::size_t{0}](unsigned r) mutable {
      auto const from = mine.subspan(std::exchange(sent, sent + sizes_to[r]), sizes_to[r]);
      auto const to = all.subspan(std::exchange(received, received + sizes_from[r]), sizes_from[r]);
      return swap(exec, from, r, to, r);
    });
  }

  template <streamed E>
  completed send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                      unsigned from) {
    arguments().send_recv(mine.size(), to, theirs.size(), from);
    return grouped([&](unsigned r) { return r == 0 ? swap(exec, mine, to, theirs, from) : ncclSuccess; });
  }

  template <streamed E, class T>
  completed all_reduce(E const& exec, span<T, device_space> x, reduction how) {
    return call("ncclAllReduce", [&] {
      return ncclAllReduce(x.data(), x.data(), x.size(), detail::nccl_type<T>(), detail::nccl_operation(how), comm_,
                           exec.stream());
    });
  }

  template <streamed E, class T>
  completed reduce_scatter(E const& exec, span<std::type_identity_t<T> const, device_space> mine,
                           span<T, device_space> part, reduction how) {
    arguments().reduce_scatter(mine.size(), part.size());
    return call("ncclReduceScatter", [&] {
      return ncclReduceScatter(mine.data(), part.data(), part.size(), detail::nccl_type<T>(),
                               detail::nccl_operation(how), comm_, exec.stream());
    });
  }

  template <streamed E>
  completed broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    arguments().peer("broadcast", root);
    return call("ncclBroadcast", [&] {
      return ncclBroadcast(x.data(), x.data(), x.size(), ncclUint8, static_cast<int>(root), comm_, exec.stream());
    });
  }

  nccl_communicator split(unsigned color) {
    constexpr unsigned most = std::numeric_limits<int>::max();
    detail::require(color <= most, "nccl: split takes colours up to 2^31 - 1, got ", color);
    ncclComm_t part = nullptr;
    call("ncclCommSplit",
         [&] { return ncclCommSplit(comm_, static_cast<int>(color), static_cast<int>(rank_), &part, nullptr); });
    return nccl_communicator(part, true);
  }

 private:
  nccl_communicator(ncclComm_t comm, bool is_own) : comm_(comm), is_own_(is_own) {
    int rank = 0, size = 0;
    done(ncclCommUserRank(comm, &rank), "ncclCommUserRank");
    done(ncclCommCount(comm, &size), "ncclCommCount");
    rank_ = static_cast<unsigned>(rank);
    size_ = static_cast<unsigned>(size);
  }

  detail::collective_arguments arguments() const { return {"nccl", rank_, size_}; }

  void require_usable() const {
    if (comm_ == nullptr) throw communication_error("pith::nccl: the communicator was aborted");
  }

  static void done(ncclResult_t code, char const* what) {
    if (code != ncclSuccess)
      throw communication_error(detail::sentence("nccl: ", what, ": ", ncclGetErrorString(code)));
  }

  template <class F>
  completed call(char const* what, F const& f) {
    check();
    done(f(), what);
    return {};
  }

  /// Starts f(r), sends and receives, for each rank; they go on together. A group that was begun must be ended.
  template <class F>
  completed grouped(F f) {
    check();
    done(ncclGroupStart(), "ncclGroupStart");
    auto code = ncclSuccess;
    for (unsigned r = 0; r < size_ && code == ncclSuccess; ++r) code = f(r);
    auto const end = ncclGroupEnd();
    done(code, "ncclSend, ncclRecv");
    done(end, "ncclGroupEnd");
    return {};
  }

  template <class E>
  ncclResult_t swap(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                    unsigned from) {
    auto code = ncclSuccess;
    if (!mine.empty()) code = ncclSend(mine.data(), mine.size(), ncclUint8, static_cast<int>(to), comm_, exec.stream());
    if (!theirs.empty() && code == ncclSuccess)
      code = ncclRecv(theirs.data(), theirs.size(), ncclUint8, static_cast<int>(from), comm_, exec.stream());
    return code;
  }

  ncclComm_t comm_;
  bool is_own_;
  unsigned rank_ = 0, size_ = 0;
};

}  // namespace pith::inline v0
