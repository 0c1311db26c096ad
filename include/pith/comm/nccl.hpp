// pith/comm/nccl.hpp — a communicator over NCCL, for device memory, with its own stream for transfers.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/comm/detail/arguments.hpp>
#include <pith/comm/timeout.hpp>
#include <pith/core/error.hpp>
#include <pith/core/transfer.hpp>
#include <pith/exec/detail/side_stream.hpp>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A pending call of an nccl_communicator. The transfer starts after all work that is on the executor's stream at the
/// time of the call. `wait(exec)` makes the stream of `exec` wait for this call and all earlier calls; the host does
/// not wait. If `wait` is not called, the destructor makes the executor's stream wait, so that later work of this
/// stream can reuse the memory.
///
///   requires    a communicator that outlives the request; the executor's stream must exist until wait() or the
///               destructor
class nccl_request {
 public:
  static constexpr bool returns_memory = true;

  nccl_request(detail::side_stream const& transfers, cudaStream_t caller) : transfers_(&transfers), caller_(caller) {
    transfers.follow(caller);
  }
  nccl_request(nccl_request&& other) noexcept
      : transfers_(std::exchange(other.transfers_, nullptr)), caller_(other.caller_) {}
  nccl_request& operator=(nccl_request&&) = delete;
  ~nccl_request() {
    try {
      if (transfers_ != nullptr) transfers_->lead(caller_);
    } catch (cuda_error const&) {  // the next CUDA call reports the error again
    }
  }

  template <class E>
  void wait(E const& exec) {
    if (transfers_ != nullptr) std::exchange(transfers_, nullptr)->lead(exec.stream());
  }
  /// Queries the transfer stream. CUDA forbids such a query during the capture of a graph.
  template <class E>
  bool test(E const&) {
    if (transfers_ != nullptr && transfers_->is_idle()) transfers_ = nullptr;
    return transfers_ == nullptr;
  }

 private:
  detail::side_stream const* transfers_;
  cudaStream_t caller_;
};

namespace detail {

template <class T>
constexpr ncclDataType_t nccl_type() {
  static_assert(kind_of<T>() != element_kind::bytes,
                "pith: NCCL reduces elements of float, double, half, bfloat16, int32_t or int8_t");
  if constexpr (std::same_as<T, float>) return ncclFloat32;
  if constexpr (std::same_as<T, double>) return ncclFloat64;
  if constexpr (std::same_as<T, half>) return ncclFloat16;
  if constexpr (std::same_as<T, bfloat16>) return ncclBfloat16;
  if constexpr (std::same_as<T, std::int8_t>) return ncclInt8;
  return ncclInt32;
}

constexpr ncclRedOp_t nccl_operation(reduction how) { return how == reduction::sum ? ncclSum : ncclMax; }

/// A device executor with a CUDA stream.
template <class E>
concept streamed = std::same_as<space_of<E>, device_space> && requires(E const& exec) {
  { exec.stream() } -> std::convertible_to<cudaStream_t>;
};

/// An NCCL communicator, or null after it was aborted.
struct nccl_handle {
  nccl_handle(ncclComm_t raw, bool is_ours) : comm(raw), is_own(is_ours) {}
  nccl_handle(nccl_handle const&) = delete;
  ~nccl_handle() {
    if (!is_own || comm == nullptr) return;
    auto const has_failed = error() != ncclSuccess;
    has_failed ? ncclCommAbort(comm) : ncclCommDestroy(comm);  // ncclCommDestroy waits for lost ranks
  }

  /// The asynchronous error, if there is one.
  ncclResult_t error() const {
    if (comm == nullptr) return ncclSuccess;
    auto state = ncclSuccess;
    auto const code = ncclCommGetAsyncError(comm, &state);
    return code == ncclSuccess ? state : code;
  }

  ncclComm_t comm;
  bool is_own;
};

/// What a communicator and the parts that split() makes of it share: the stream for transfers, and the list of all their
/// NCCL communicators. If a rank is lost, a call of any of them may never end, so they are aborted together.
class nccl_group {
 public:
  template <class... Stream>
  explicit nccl_group(Stream... transfers) : transfers_(transfers...) {}

  side_stream const& transfers() const { return transfers_; }

  std::shared_ptr<nccl_handle> add(ncclComm_t comm, bool is_own) {
    auto made = std::make_shared<nccl_handle>(comm, is_own);
    std::erase_if(all_, [](auto const& h) { return h.expired(); });
    all_.push_back(made);
    return made;
  }
  /// The first asynchronous error of a communicator.
  ncclResult_t error() const {
    for (auto const& weak : all_) {
      auto const of = weak.lock();
      if (auto const code = of ? of->error() : ncclSuccess; code != ncclSuccess) return code;
    }
    return ncclSuccess;
  }
  /// Returns the first error of NCCL.
  ncclResult_t abort() {
    auto first = ncclSuccess;
    for (auto const& weak : all_) {
      auto const of = weak.lock();
      if (!of || of->comm == nullptr) continue;
      auto const code = ncclCommAbort(std::exchange(of->comm, nullptr));
      if (first == ncclSuccess) first = code;
    }
    return first;
  }

 private:
  side_stream transfers_;
  std::vector<std::weak_ptr<nccl_handle>> all_;
};

}  // namespace detail

/// A communicator on an `ncclComm_t` with `config.blocking` = 1, which is NCCL's default. NCCL must be version 2.18 or
/// newer. Transfers run on a separate stream. A transfer starts after all work that was on the executor's stream at the
/// time of the call. The transfer overlaps later work of the executor's stream until `wait()` is called on the
/// transfer's request. Before this wait, the caller must not access the spans of the call.
///
///   requires    the communicator's device is the current device; one thread at a time for a communicator and its
///               parts. While that thread waits in a call of CUDA, another thread may call abort(). NCCL waits in
///               abort(), and in the destructor of a part, until all CUDA graphs that captured its calls are destroyed
///   state       one stream for transfers. All ranks must run the calls of all their communicators in the same order,
///               so all communicators of a rank must share one stream. split() returns communicators that share the
///               stream. If a rank constructs several communicators, the caller passes the same stream to all
///               constructors. This stream must outlive the communicators. If it is the executor's stream, transfers
///               overlap no work
///   complexity  no call waits for the device or allocates device memory; split() waits for the other ranks. A CUDA
///               graph can capture a call if wait(), and not test(), is called on the call's request before the capture
///               ends. A gradient_exchange calls wait() for a round when the next round starts. So a backward pass on
///               the same stream overlaps the transfers of one tensor bucket. A backward pass on another stream
///               overlaps the transfers of all tensor buckets, but needs events that make the exchange's stream wait
///               for the gradients
///   errors      communication_error for an error of the call, or for an asynchronous NCCL error since the last call.
///               After an asynchronous error or a timeout, this communicator is aborted, and so are its parts, the
///               communicator that split() divided, and the other parts of that. Only synchronize() detects a lost
///               rank, by its timeout
///   owns        the NCCL communicator, if split() made it. An NCCL communicator that the caller passed must outlive
///               this object. The caller destroys it, unless is_aborted()
class nccl_communicator {
 public:
  explicit nccl_communicator(ncclComm_t comm)
      : nccl_communicator(comm, false, std::make_shared<detail::nccl_group>()) {}
  nccl_communicator(ncclComm_t comm, cudaStream_t transfers)
      : nccl_communicator(comm, false, std::make_shared<detail::nccl_group>(transfers)) {}
  nccl_communicator(nccl_communicator&&) noexcept = default;
  nccl_communicator& operator=(nccl_communicator&&) = delete;

  unsigned rank() const { return rank_; }
  unsigned size() const { return size_; }

  /// Throws if NCCL has reported an asynchronous error, also of a part; does not wait for the device.
  void check() const {
    require_usable();
    auto const code = group_->error();
    if (code != ncclSuccess) static_cast<void>(group_->abort());
    done(code, "an earlier call");
  }

  /// Waits on the host for all work of the executor's stream, including every transfer for which `wait()` was called.
  /// If the wait takes longer than `timeout`, a rank is gone or stuck. `synchronize()` then aborts the communicator and
  /// throws communication_error.
  template <detail::streamed E>
  void synchronize(E const& exec, timeout_duration timeout = default_timeout) {
    detail::require_timeout("nccl_communicator::synchronize", timeout);
    auto const begin = std::chrono::steady_clock::now();
    while (!detail::is_idle(exec.stream())) {
      check();
      if (std::chrono::steady_clock::now() - begin > timeout) give_up(timeout);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    check();
  }

  /// Ends the pending calls of this communicator and of all others that it is connected with by split(), so that streams
  /// do not wait for a lost rank. Every later call throws. `abort()` destroys the NCCL communicators, so the caller must
  /// not destroy them again. Has no effect if they were aborted before.
  void abort() {
    if (!is_aborted()) done(group_->abort(), "ncclCommAbort");
  }
  bool is_aborted() const { return handle_ == nullptr || handle_->comm == nullptr; }

  template <detail::streamed E>
  nccl_request all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_gather(mine.size(), all.size());
    return call(exec, "ncclAllGather", [&](cudaStream_t stream) {
      return ncclAllGather(mine.data(), all.data(), mine.size(), ncclUint8, handle_->comm, stream);
    });
  }

  template <detail::streamed E>
  nccl_request all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    auto const n = mine.size() / size();
    return grouped(exec, [&](unsigned r) { return swap(mine.subspan(r * n, n), r, all.subspan(r * n, n), r); });
  }

  template <detail::streamed E>
  nccl_request send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                         unsigned from) {
    arguments().send_recv(mine.size(), to, theirs.size(), from);
    return grouped(exec, [&](unsigned r) { return r == 0 ? swap(mine, to, theirs, from) : ncclSuccess; });
  }

  template <detail::streamed E, class T>
  nccl_request all_reduce(E const& exec, span<T, device_space> x, reduction how) {
    return call(exec, "ncclAllReduce", [&](cudaStream_t stream) {
      return ncclAllReduce(x.data(), x.data(), x.size(), detail::nccl_type<T>(), detail::nccl_operation(how),
                           handle_->comm, stream);
    });
  }

  template <detail::streamed E, class T>
  nccl_request reduce_scatter(E const& exec, span<std::type_identity_t<T> const, device_space> mine,
                              span<T, device_space> part, reduction how) {
    arguments().reduce_scatter(mine.size(), part.size());
    return call(exec, "ncclReduceScatter", [&](cudaStream_t stream) {
      return ncclReduceScatter(mine.data(), part.data(), part.size(), detail::nccl_type<T>(),
                               detail::nccl_operation(how), handle_->comm, stream);
    });
  }

  template <detail::streamed E>
  nccl_request broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    arguments().peer("broadcast", "root", root);
    return call(exec, "ncclBroadcast", [&](cudaStream_t stream) {
      return ncclBroadcast(x.data(), x.data(), x.size(), ncclUint8, static_cast<int>(root), handle_->comm, stream);
    });
  }

  nccl_communicator split(unsigned color) {
    constexpr unsigned most = std::numeric_limits<int>::max();
    detail::require(color <= most, "nccl_communicator::split: color must be at most 2^31 - 1, got ", color);
    ncclComm_t part = nullptr;
    check();
    done(ncclCommSplit(handle_->comm, static_cast<int>(color), static_cast<int>(rank_), &part, nullptr),
         "ncclCommSplit");
    return nccl_communicator(part, true, group_);
  }

 private:
  nccl_communicator(ncclComm_t comm, bool is_own, std::shared_ptr<detail::nccl_group> group)
      : group_(std::move(group)), handle_(group_->add(not_null(comm), is_own)) {
    int rank = 0, size = 0;
    done(ncclCommUserRank(comm, &rank), "ncclCommUserRank");
    done(ncclCommCount(comm, &size), "ncclCommCount");
    rank_ = static_cast<unsigned>(rank);
    size_ = static_cast<unsigned>(size);
  }

  static ncclComm_t not_null(ncclComm_t comm) {
    detail::require(comm != nullptr, "nccl_communicator: 'comm' must be a communicator, got null");
    return comm;
  }
  detail::collective_arguments arguments() const { return {"nccl_communicator", rank_, size_}; }

  [[noreturn]] void give_up(timeout_duration timeout) {
    abort();
    throw communication_error(detail::sentence("nccl_communicator::synchronize did not end within ", timeout.count(),
                                               " s: ", detail::gone_or_stuck({})));
  }

  void require_usable() const {
    if (is_aborted())
      throw communication_error("pith::nccl_communicator: the communicator was aborted: make another one");
  }

  static void done(ncclResult_t code, char const* what) {
    if (code != ncclSuccess)
      throw communication_error(detail::sentence("nccl_communicator: ", what, ": ", ncclGetErrorString(code)));
  }

  /// f(stream) enqueues the call. Even if f fails, the request makes the executor's stream wait for the operations that
  /// f enqueued.
  template <class E, class F>
  nccl_request call(E const& exec, char const* what, F const& f) {
    check();
    auto request = nccl_request(group_->transfers(), exec.stream());
    done(f(group_->transfers().get()), what);
    return request;
  }

  /// Calls f(r) for all ranks r, in one NCCL group. f may enqueue a send and a receive. Ends the group even after an
  /// error.
  template <class E, class F>
  nccl_request grouped(E const& exec, F f) {
    return call(exec, "ncclSend, ncclRecv", [&](cudaStream_t) {
      auto code = ncclGroupStart();
      for (unsigned r = 0; r < size_ && code == ncclSuccess; ++r) code = f(r);
      auto const end = ncclGroupEnd();
      return code == ncclSuccess ? end : code;
    });
  }

  ncclResult_t swap(device_span<std::byte const> mine, unsigned to, device_span<std::byte> theirs, unsigned from) {
    auto* const stream = group_->transfers().get();
    auto code = ncclSuccess;
    if (!mine.empty())
      code = ncclSend(mine.data(), mine.size(), ncclUint8, static_cast<int>(to), handle_->comm, stream);
    if (!theirs.empty() && code == ncclSuccess)
      code = ncclRecv(theirs.data(), theirs.size(), ncclUint8, static_cast<int>(from), handle_->comm, stream);
    return code;
  }

  std::shared_ptr<detail::nccl_group> group_;
  std::shared_ptr<detail::nccl_handle> handle_;
  unsigned rank_ = 0, size_ = 0;
};

}}  // namespace pith::PITH_ABI
