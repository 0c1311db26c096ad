// pith/comm/mpi.hpp — a communicator over MPI.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/comm/detail/arguments.hpp>
#include <pith/comm/detail/call_label.hpp>
#include <pith/comm/detail/mpi_device.hpp>
#include <pith/comm/detail/mpi_request.hpp>
#include <pith/comm/timeout.hpp>
#include <pith/core/element.hpp>
#include <pith/core/error.hpp>
#include <pith/core/transfer.hpp>
#include <pith/exec/seq.hpp>

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The MPI type of an element type. MPI 3.1 has no 16-bit floats, so such floats are sent as MPI_UINT16_T and added by
/// `narrow_operation`.
template <class T>
MPI_Datatype mpi_type() {
  static_assert(kind_of<T>() != element_kind::bytes,
                "pith: MPI reduces elements of float, double, half, bfloat16, int32_t or int8_t");
  if constexpr (std::same_as<T, float>) return MPI_FLOAT;
  if constexpr (std::same_as<T, double>) return MPI_DOUBLE;
  if constexpr (std::same_as<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (std::same_as<T, std::int8_t>) return MPI_INT8_T;
  return MPI_UINT16_T;
}

template <class T, reduction How>
void reduce_narrow(void* in, void* inout, int* length, MPI_Datatype*) {
  auto const* const a = static_cast<T const*>(in);
  auto* const b = static_cast<T*>(inout);
  for (int i = 0; i < *length; ++i) b[i] = reduced(a[i], b[i], How);
}

/// A reduction operation for 16-bit floats, which is made once and never freed, since abandoned calls may still use it.
template <class T, reduction How>
MPI_Op narrow_operation() {
  static auto const made = [] {
    MPI_Op op = MPI_OP_NULL;
    if (MPI_Op_create(&reduce_narrow<T, How>, 1, &op) != MPI_SUCCESS)
      throw communication_error(sentence("mpi_communicator: MPI_Op_create must make an operation, got an error"));
    return op;
  }();
  return made;
}

template <class T>
MPI_Op mpi_operation(reduction how) {
  if constexpr (std::same_as<T, half> || std::same_as<T, bfloat16>)
    return how == reduction::sum ? narrow_operation<T, reduction::sum>() : narrow_operation<T, reduction::max>();
  return how == reduction::sum ? MPI_SUM : MPI_MAX;
}

}  // namespace detail

/// Options of an mpi_communicator.
struct mpi_options {
  timeout_duration timeout = default_timeout;  ///< the longest time that a call may take after its first wait or test
  /// Largest number of elements per MPI call, equal on all ranks. MPI counts elements in ints, and some MPI functions
  /// fail near 2^31.
  std::size_t most = std::size_t{1} << 27;
};

/// A communicator on a duplicate of the MPI communicator `comm`. Calls use MPI's nonblocking collectives. MPI chooses
/// the order in which it adds the ranks' values. For additions in rank order, use the adapter `reproducible_sums`.
///
///   requires    an intracommunicator of at most 65536 ranks; MPI_Init before the constructor
///               (std::invalid_argument). All calls must end before MPI_Finalize; the destructor may run later. Only
///               one thread at a time may call the communicator. A call from a thread other than MPI's main thread
///               needs at least MPI_THREAD_SERIALIZED (std::invalid_argument). On a host, gradient_exchange::ready
///               starts a thread that makes such calls. Device memory needs a CUDA-aware MPI. MPI passes the errors of
///               nonblocking collectives, for example of a lost link, to the error handler of MPI_COMM_WORLD. Set
///               MPI_ERRORS_RETURN on MPI_COMM_WORLD to receive such an error as a communication_error; otherwise the
///               error ends the program. Calls that differ between ranks are not such errors
///   state       for each pending all-reduce of host memory, a copy of the elements
///   complexity  each call first waits for the executor, since MPI reads and writes the executor's memory. During a
///               transfer, the ranks compare their calls by an all-reduce of 32 bytes (send_recv: by messages to both
///               partners). Memory is reused, so repeated equal calls allocate only in the first call. A wait or test
///               on one request lets all pending calls make progress. A collective with device memory, except
///               send_recv, blocks after the comparison, without a timeout, since Open MPI's nonblocking collectives do
///               not support device memory
///   errors      communication_error for an error of MPI. If the ranks make different calls, or pass different sizes,
///               all ranks throw communication_error. The message contains two ranks that differ, and their calls. A
///               call is described by its collective, element type, reduction and root, and by the function, number and
///               transfer of the exchange. If a rank calls send_recv with another size than its partner, both ranks
///               throw. A call during a pending call of another thread throws communication_error. After the pending
///               calls have ended, all later calls of all ranks also throw. If a rank is lost or stuck, or makes fewer
///               calls, a call throws communication_error when `timeout` has passed since the call's first wait or
///               test. The message of send_recv contains the lost or stuck rank. After any error, the progress of the
///               other ranks is unknown, so every later call on the communicator throws the same error. MPI may then
///               still write to the call's memory. After a timeout, MPI_Finalize may never return. So end the program
///               by MPI_Abort or std::_Exit
///   owns        the duplicate of `comm`; all requests must end before the destructor
class mpi_communicator {
 public:
  explicit mpi_communicator(MPI_Comm comm, mpi_options const& options = {})
      : mpi_communicator(own{duplicate(comm, options)}, options) {}
  mpi_communicator(mpi_communicator const&) = delete;
  mpi_communicator& operator=(mpi_communicator const&) = delete;
  ~mpi_communicator() {
    if (link_.is_usable()) MPI_Comm_free(&comm_);  // after an error, MPI_Comm_free may wait for a lost rank
  }

  unsigned rank() const { return static_cast<unsigned>(rank_); }
  unsigned size() const { return static_cast<unsigned>(size_); }

  /// Throws std::invalid_argument if only MPI's main thread may call this communicator.
  void require_thread_support() const {
    detail::require(threads_ >= MPI_THREAD_SERIALIZED,
                    "mpi_communicator: a call from a thread other than MPI's main thread needs MPI_THREAD_SERIALIZED: ",
                    "call MPI_Init_thread in place of MPI_Init");
  }

  template <executor E>
  mpi_request all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_gather(mine.size(), all.size());
    auto request = begin(exec, {kind::all_gather}, mine.size());
    for_each_piece(mine.size(), max_piece(), [&](std::size_t at, int n) {
      auto const [count, type] = request.strided(n, mine.size());
      call<E>(request, MPI_Iallgather, MPI_Allgather, mine.data() + at, n, MPI_BYTE, all.data() + at, count, type);
    });
    return request;
  }

  template <executor E>
  mpi_request all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    auto request = begin(exec, {kind::all_to_all}, mine.size());
    for_each_piece(mine.size() / size(), max_piece(), [&](std::size_t at, int n) {
      auto const [count, type] = request.strided(n, mine.size() / size());
      call<E>(request, MPI_Ialltoall, MPI_Alltoall, mine.data() + at, count, type, all.data() + at, count, type);
    });
    return request;
  }

  template <executor E>
  mpi_request send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                        unsigned from) {
    arguments().send_recv(mine.size(), to, theirs.size(), from);
    auto request = begin(exec, {kind::send_recv});
    auto const tag = request.call().tag;
    agree(request, mine.size(), int(to), theirs.size(), int(from), tag + 1);
    for_each_piece(theirs.size(), most_, [&](std::size_t at, int n) {
      request.check(MPI_Irecv(theirs.data() + at, n, MPI_BYTE, int(from), tag, comm_, request.next(int(from))));
    });
    for_each_piece(mine.size(), most_, [&](std::size_t at, int n) {
      request.check(MPI_Isend(mine.data() + at, n, MPI_BYTE, int(to), tag, comm_, request.next(int(to))));
    });
    return request;
  }

  /// Reduces a copy of x if x is in host memory. In place, Open MPI's nonblocking all-reduce takes three times as long.
  template <executor E, class T>
  mpi_request all_reduce(E const& exec, span<T, space_of<E>> x, reduction how) {
    auto request = begin(exec, {kind::all_reduce, kind_of<T>(), how});
    // Allocated before the comparison: after it, the other ranks would wait in MPI_Iallreduce for a rank that lacks memory.
    auto* const copy = detail::host_executor<E> ? reinterpret_cast<T*>(request.memory(x.size_bytes())) : nullptr;
    compare<E>(request, x.size_bytes());
    if constexpr (detail::host_executor<E>) exec.copy(copy, x.data(), x.size_bytes());
    for_each_piece(x.size(), most_, [&](std::size_t at, int n) {
      void const* const from = detail::host_executor<E> ? copy + at : MPI_IN_PLACE;
      call<E>(request, MPI_Iallreduce, MPI_Allreduce, from, x.data() + at, n, detail::mpi_type<T>(),
              detail::mpi_operation<T>(how));
    });
    return request;
  }

  template <executor E, class T>
  mpi_request reduce_scatter(E const& exec, span<std::type_identity_t<T> const, space_of<E>> mine,
                             span<T, space_of<E>> part, reduction how) {
    arguments().reduce_scatter(mine.size(), part.size());
    auto request = begin(exec, {kind::reduce_scatter, kind_of<T>(), how}, part.size_bytes());
    auto const type = detail::mpi_type<T>();
    auto const op = detail::mpi_operation<T>(how);
    for_each_piece(part.size(), max_piece(), [&](std::size_t at, int n) {
      if (std::size_t(n) == part.size())
        return call<E>(request, MPI_Ireduce_scatter_block, MPI_Reduce_scatter_block, mine.data(), part.data(), n, type,
                       op);
      for (int root = 0; root < size_; ++root)
        call<E>(request, MPI_Ireduce, MPI_Reduce, mine.data() + std::size_t(root) * part.size() + at, part.data() + at,
                n, type, op, root);
    });
    return request;
  }

  template <executor E>
  mpi_request broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    arguments().peer("broadcast", "root", root);
    auto request = begin(exec, {.kind = kind::broadcast, .root = root}, x.size());
    for_each_piece(x.size(), most_, [&](std::size_t at, int n) {
      call<E>(request, MPI_Ibcast, MPI_Bcast, x.data() + at, n, MPI_BYTE, static_cast<int>(root));
    });
    return request;
  }

  mpi_communicator split(unsigned color) {
    detail::require(color <= INT_MAX, "mpi_communicator::split: color must be at most 2^31 - 1, got ", color);
    // The request is pending until this function returns, so a call of another thread throws. MPI_Comm_split has no
    // timeout, so all ranks meet before it.
    auto request = begin(seq, {kind::split}, 0);
    request.end();
    MPI_Comm part = MPI_COMM_NULL;
    link_.check(MPI_Comm_split(comm_, static_cast<int>(color), rank_, &part), "MPI_Comm_split");
    return mpi_communicator(own{part}, {link_.timeout(), most_});
  }

 private:
  using kind = detail::call_kind;

  /// An MPI communicator that the new object must free.
  struct own {
    MPI_Comm comm;
  };

  mpi_communicator(own made, mpi_options const& options)
      : link_(options.timeout), most_(options.most), comm_(made.comm) {
    link_.check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    link_.check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    link_.check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    link_.use(comm_, rank(), size_);
    link_.check(MPI_Query_thread(&threads_), "MPI_Query_thread");
  }

  static MPI_Comm duplicate(MPI_Comm comm, mpi_options const& options) {
    require_intracommunicator(comm);
    detail::require(options.most >= 1 && options.most <= INT_MAX,
                    "mpi_communicator: most must be in [1, 2^31 - 1], got ", options.most);
    int ranks = 0;
    MPI_Comm_size(comm, &ranks);
    detail::require(ranks <= detail::ranked_number::max_ranks, "mpi_communicator: 'comm' must have at most ",
                    detail::ranked_number::max_ranks, " ranks, got ", ranks);
    auto link = detail::mpi_link(options.timeout);
    auto request = mpi_request(link, {detail::call_kind::duplicate});
    MPI_Comm made = MPI_COMM_NULL;
    request.check(MPI_Comm_idup(comm, &made, request.next()));
    request.end();
    return made;
  }

  static void require_intracommunicator(MPI_Comm comm) {
    detail::require(detail::is_mpi_running(),
                    "mpi_communicator: make it after MPI_Init and before MPI_Finalize: MPI does not run");
    detail::require(comm != MPI_COMM_NULL, "mpi_communicator: 'comm' must be a communicator, got MPI_COMM_NULL");
    int is_inter = 0;
    MPI_Comm_test_inter(comm, &is_inter);
    detail::require(!is_inter, "mpi_communicator: 'comm' must be an intracommunicator, got an intercommunicator: ",
                    "call MPI_Intercomm_merge");
  }

  detail::collective_arguments arguments() const { return {"mpi_communicator", rank(), size()}; }

  void require_thread() const {
    if (threads_ >= MPI_THREAD_SERIALIZED) return;
    int is_main = 0;
    MPI_Is_thread_main(&is_main);
    if (!is_main) require_thread_support();
  }

  /// Waits until the executor's pending work is done, so that MPI can read the executor's memory.
  template <class E>
  mpi_request begin(E const& exec, detail::call_label const& label) {
    require_thread();
    if constexpr (!detail::host_executor<E>) detail::require_cuda_aware();
    exec.wait();
    return {link_, label};
  }
  template <class E>
  mpi_request begin(E const& exec, detail::call_label const& label, std::size_t size) {
    auto request = begin(exec, label);
    compare<E>(request, size);
    return request;
  }
  /// All ranks must pass equal labels and sizes. For device memory, this function waits for the comparison, because
  /// blocking calls follow.
  template <class E>
  void compare(mpi_request& request, std::size_t size) {
    request.check(link_.compare(request.call(), size));
    if constexpr (!detail::host_executor<E>) request.end();
  }
  /// Compares labels and sizes with both partners. Rank `to` must expect `mine` bytes, and rank `from` must send
  /// `theirs` bytes.
  void agree(mpi_request& request, std::size_t mine, int to, std::size_t theirs, int from, int tag) {
    auto& c = request.call();
    auto const label = link_.ranked(static_cast<std::uint64_t>(c.label.packed())).packed();
    auto const packed_size = [&](std::size_t size) { return link_.ranked_size(c, size).packed(); };
    c.expected = {label, packed_size(mine), label, packed_size(theirs)};
    c.sent = {c.expected[2], c.expected[3], c.expected[0], c.expected[1]};
    for (std::size_t i = 0; i < 2; ++i) {
      auto const [source, target] = i == 0 ? std::pair(to, from) : std::pair(from, to);
      auto const one = tag + int(i);
      c.agreement[i].peer = source;
      request.check(MPI_Irecv(&c.received[2 * i], 2, MPI_INT64_T, source, one, comm_, &c.agreement[i].request));
      request.check(MPI_Isend(&c.sent[2 * i], 2, MPI_INT64_T, target, one, comm_, request.next(target)));
    }
  }

  /// Calls the nonblocking collective for host memory, and the blocking collective for device memory.
  template <class E, class Nonblocking, class Blocking, class... Arguments>
  void call(mpi_request& request, Nonblocking start, Blocking run, Arguments... passed) {
    request.check(detail::host_executor<E> ? start(passed..., comm_, request.next()) : run(passed..., comm_));
  }
  template <class F>
  static void for_each_piece(std::size_t n, std::size_t most, F const& f) {
    for (std::size_t at = 0; at < n; at += most) f(at, static_cast<int>(std::min(most, n - at)));
  }
  /// The largest number of elements that each rank sends in one MPI call.
  std::size_t max_piece() const { return std::max<std::size_t>(most_ / size(), 1); }

  detail::mpi_link link_;
  std::size_t most_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 0;
  int threads_ = MPI_THREAD_SINGLE;
};

static_assert(communicator<mpi_communicator, archetype> &&
              calls_of<mpi_communicator, archetype> == optional_calls::all());

}}  // namespace pith::PITH_ABI
