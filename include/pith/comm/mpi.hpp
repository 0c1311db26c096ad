// pith/comm/mpi.hpp — ranks of an MPI communicator.
#pragma once

#include <pith/comm/arguments.hpp>
#include <pith/comm/communicator.hpp>
#include <pith/comm/mpi_device.hpp>
#include <pith/comm/mpi_request.hpp>
#include <pith/comm/timeout.hpp>
#include <pith/core/digest.hpp>

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>

namespace pith::inline v0 {

namespace detail {

/// MPI 3.1 has no 16-bit floats: an operation on MPI_UINT16_T adds them.
template <class T, reduction How>
void reduce_narrow(void* in, void* inout, int* length, MPI_Datatype*) {
  auto const* const a = static_cast<T const*>(in);
  auto* const b = static_cast<T*>(inout);
  for (int i = 0; i < *length; ++i) {
    auto const x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
    b[i] = T(How == reduction::sum ? x + y : (x > y ? x : y));
  }
}

template <class T>
MPI_Datatype mpi_type() {
  if constexpr (std::same_as<T, float>) return MPI_FLOAT;
  if constexpr (std::same_as<T, double>) return MPI_DOUBLE;
  if constexpr (std::same_as<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (std::same_as<T, std::int8_t>) return MPI_INT8_T;
  return MPI_UINT16_T;
}

}  // namespace detail

/// How a communicator calls MPI.
struct mpi_options {
  timeout_duration timeout = default_timeout;  ///< of a call, from the first wait or test on
  /// The elements that a call of MPI moves at most: MPI counts in ints, and parts of it are wrong near 2^31.
  std::size_t most = std::size_t{1} << 27;
};

/// The ranks of a duplicate of `comm`, by MPI's own nonblocking collectives. MPI's errors are thrown as
/// communication_error, and end the communicator's use: every later call throws the same, since nobody knows where the
/// other ranks are.
///
///   needs    MPI_Init before and MPI_Finalize after its life; one thread at a time, another than MPI's own only where
///            MPI_Init_thread gave MPI_THREAD_SERIALIZED or more (std::invalid_argument), since
///            gradient_exchange::ready makes one. Calls that are under way go on while any of them is waited for or
///            tested. MPICH ends the program on errors of requests unless MPI_COMM_WORLD, too, has MPI_ERRORS_RETURN
///   throws   on both sides where the sizes of ranks differ; where a call takes longer than `timeout` from the first wait or
///            test on: a rank is gone or stuck, which is named where messages go from rank to rank. MPI may then write to
///            the call's memory whenever it runs, and MPI_Finalize may wait for ever: end the program by MPI_Abort or
///            std::_Exit
///   keeps    room for as many elements as are summed at once
///   cost     a call reads and writes host memory itself, so it waits for the executor. While its bytes move the ranks
///            compare sizes: a maximum of 16 bytes. MPI chooses the order of sums; reproducible_sums adds in that of the
///            ranks. Device memory needs an MPI that is aware of CUDA; sums and broadcasts of it block, and have no
///            deadline, since Open MPI's nonblocking ones cannot take it
class mpi_communicator {
 public:
  explicit mpi_communicator(MPI_Comm comm, mpi_options const& options = {})
      : mpi_communicator(own{duplicate(comm, options.timeout)}, options) {}
  mpi_communicator(mpi_communicator const&) = delete;
  mpi_communicator& operator=(mpi_communicator const&) = delete;
  ~mpi_communicator() {
    if (link_.is_broken()) return;  // MPI_Comm_free may wait for all ranks
    for (auto* op : {&half_.sum, &half_.max, &bfloat16_.sum, &bfloat16_.max}) MPI_Op_free(op);
    MPI_Comm_free(&comm_);
  }

  unsigned rank() const { return static_cast<unsigned>(rank_); }
  unsigned size() const { return static_cast<unsigned>(size_); }

  template <executor E>
  mpi_request all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_gather(mine.size(), all.size());
    auto request = begin(exec, "all_gather", mine.size());
    auto const n = mine.size();
    if (is_one_call<E>(all.size())) {
      request.check(MPI_Iallgather(mine.data(), int(n), MPI_BYTE, all.data(), int(n), MPI_BYTE, comm_, request.next()));
    } else {
      exchange<E>(
          request, [&](unsigned) { return mine; }, [&](unsigned r) { return all.subspan(r * n, n); });
    }
    return request;
  }

  template <executor E>
  mpi_request all_gather_v(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all,
                           span<std::size_t const> sizes) {
    arguments().all_gather_v(mine.size(), all.size(), sizes);
    auto request = begin(exec, "all_gather_v", digest_of(sizes));
    if (is_one_call<E>(all.size())) {
      auto const from = layout(request, sizes);
      request.check(MPI_Iallgatherv(mine.data(), from[rank_], MPI_BYTE, all.data(), from, from + size_, MPI_BYTE, comm_,
                                    request.next()));
    } else {
      exchange<E>(
          request, [&](unsigned) { return mine; }, [&](unsigned r) { return part(all, sizes, r); });
    }
    return request;
  }

  template <executor E>
  mpi_request all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    auto request = begin(exec, "all_to_all", mine.size());
    auto const n = mine.size() / size();
    if (is_one_call<E>(all.size())) {
      request.check(MPI_Ialltoall(mine.data(), int(n), MPI_BYTE, all.data(), int(n), MPI_BYTE, comm_, request.next()));
    } else {
      exchange<E>(
          request, [&](unsigned r) { return mine.subspan(r * n, n); },
          [&](unsigned r) { return all.subspan(r * n, n); });
    }
    return request;
  }

  template <executor E>
  mpi_request all_to_all_v(E const& exec, span_on<E, std::byte const> mine, span<std::size_t const> sizes_to,
                           span_on<E, std::byte> all, span<std::size_t const> sizes_from) {
    arguments().all_to_all_v(mine.size(), sizes_to, all.size(), sizes_from);
    auto request = begin(exec, "all_to_all_v");
    expect(request, sizes_to, sizes_from);
    exchange<E>(
        request, [&](unsigned r) { return part(mine, sizes_to, r); },
        [&](unsigned r) { return part(all, sizes_from, r); });
    return request;
  }

  template <executor E>
  mpi_request send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                        unsigned from) {
    arguments().send_recv(mine.size(), to, theirs.size(), from);
    auto request = begin(exec, "send_recv");
    auto const tag = next_tag();
    expect(request, mine.size(), to, theirs.size(), from, tag + 1);
    receive<E>(request, theirs, from, tag);
    send<E>(request, mine, to, tag);
    return request;
  }

  /// Of a copy: in place, Open MPI's nonblocking sums go up a tree and down again, in three times a ring's time.
  template <executor E, class T>
  mpi_request all_reduce(E const& exec, span<T, space_of<E>> x, reduction how) {
    auto request = begin(exec, "all_reduce", x.size_bytes());
    auto const type = detail::mpi_type<T>();
    auto const op = operation<T>(how);
    if constexpr (host_executor<E>) {
      auto* const copy = reinterpret_cast<T*>(request.memory(x.size_bytes()));
      exec.copy(copy, x.data(), x.size_bytes());
      for_each_piece(x.size(), [&](std::size_t at, int n) {
        request.check(MPI_Iallreduce(copy + at, x.data() + at, n, type, op, comm_, request.next()));
      });
    } else {
      for_each_piece(x.size(), [&](std::size_t at, int n) {
        request.check(MPI_Allreduce(MPI_IN_PLACE, x.data() + at, n, type, op, comm_));
      });
    }
    return request;
  }

  template <executor E, class T>
  mpi_request reduce_scatter(E const& exec, span<std::type_identity_t<T> const, space_of<E>> mine,
                             span<T, space_of<E>> part, reduction how) {
    arguments().reduce_scatter(mine.size(), part.size());
    auto request = begin(exec, "reduce_scatter", part.size_bytes());
    auto const type = detail::mpi_type<T>();
    auto const op = operation<T>(how);
    if (host_executor<E> && is_one_call<E>(part.size())) {
      request.check(
          MPI_Ireduce_scatter_block(mine.data(), part.data(), int(part.size()), type, op, comm_, request.next()));
      return request;
    }
    for (int root = 0; root < size_; ++root) {
      auto const* const from = mine.data() + static_cast<std::size_t>(root) * part.size();
      for_each_piece(part.size(), [&](std::size_t at, int n) {
        request.check(host_executor<E>
                          ? MPI_Ireduce(from + at, part.data() + at, n, type, op, root, comm_, request.next())
                          : MPI_Reduce(from + at, part.data() + at, n, type, op, root, comm_));
      });
    }
    return request;
  }

  template <executor E>
  mpi_request broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    arguments().peer("broadcast", "root", root);
    auto request = begin(exec, "broadcast", x.size());
    auto const from = static_cast<int>(root);
    for_each_piece(x.size(), [&](std::size_t at, int n) {
      request.check(host_executor<E> ? MPI_Ibcast(x.data() + at, n, MPI_BYTE, from, comm_, request.next())
                                     : MPI_Bcast(x.data() + at, n, MPI_BYTE, from, comm_));
    });
    return request;
  }

  mpi_communicator split(unsigned color) {
    detail::require(color <= INT_MAX, "mpi_communicator::split: color must be at most 2^31 - 1, got ", color);
    require_thread("split");
    link_.require_usable();
    meet();
    MPI_Comm part = MPI_COMM_NULL;
    link_.check(MPI_Comm_split(comm_, static_cast<int>(color), rank_, &part), "MPI_Comm_split");
    return mpi_communicator(own{part}, {link_.timeout(), most_});
  }

 private:
  /// A communicator that is no one else's.
  struct own {
    MPI_Comm comm;
  };

  mpi_communicator(own made, mpi_options const& options)
      : link_(options.timeout), most_(options.most), comm_(made.comm) {
    detail::require(most_ >= 1 && most_ <= INT_MAX, "mpi_communicator: most must be in [1, 2^31 - 1], got ", most_);
    link_.check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    link_.check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    link_.check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    link_.check(MPI_Query_thread(&threads_), "MPI_Query_thread");
    narrow<half>(half_);
    narrow<bfloat16>(bfloat16_);
  }

  static MPI_Comm duplicate(MPI_Comm comm, timeout_duration timeout) {
    auto link = detail::mpi_link(timeout);
    auto request = mpi_request(link, "MPI_Comm_idup");
    MPI_Comm made = MPI_COMM_NULL;
    request.check(MPI_Comm_idup(comm, &made, request.next()));
    request.end();
    return made;
  }

  /// MPI_Comm_split has no deadline of its own, so all ranks must be there before.
  void meet() {
    auto request = mpi_request(link_, "MPI_Comm_split");
    request.check(MPI_Ibarrier(comm_, request.next()));
    request.end();
  }

  detail::collective_arguments arguments() const { return {"mpi_communicator", rank(), size()}; }

  void require_thread(char const* call) const {
    if (threads_ >= MPI_THREAD_SERIALIZED) return;
    int is_main = 0;
    MPI_Is_thread_main(&is_main);
    detail::require(is_main, "mpi_communicator::", call, ": a thread other than the main one needs ",
                    "MPI_THREAD_SERIALIZED: call MPI_Init_thread in place of MPI_Init");
  }

  /// What the executor was asked for must be done before MPI reads memory.
  template <class E>
  mpi_request begin(E const& exec, char const* call) {
    require_thread(call);
    link_.require_usable();
    if constexpr (!host_executor<E>) detail::require_cuda_aware();
    exec.wait();
    return {link_, call};
  }
  /// ... of a call in which the sizes of all ranks must be equal: the largest and the least of them, negated, are this
  /// rank's.
  template <class E>
  mpi_request begin(E const& exec, char const* call, std::size_t size) {
    auto request = begin(exec, call);
    auto const passed = static_cast<std::int64_t>(size);
    auto& c = request.call();
    c.own.assign({passed, -passed});
    c.others.resize(2);
    request.check(MPI_Iallreduce(c.own.data(), c.others.data(), 2, MPI_INT64_T, MPI_MAX, comm_, &c.agreement));
    return request;
  }
  /// What this rank sends to each is what that expects.
  void expect(mpi_request& request, span<std::size_t const> to, span<std::size_t const> from) {
    auto& c = request.call();
    c.asked.assign(from.begin(), from.end());
    c.own.assign(to.begin(), to.end());
    c.others.resize(size());
    request.check(MPI_Ialltoall(c.asked.data(), 1, MPI_INT64_T, c.others.data(), 1, MPI_INT64_T, comm_, &c.agreement));
  }
  void expect(mpi_request& request, std::size_t mine, unsigned to, std::size_t theirs, unsigned from, int tag) {
    auto& c = request.call();
    c.asked.assign({static_cast<std::int64_t>(theirs)});
    c.own.assign({static_cast<std::int64_t>(mine)});
    c.others.resize(1);
    c.agreement_peer = static_cast<int>(to);
    request.check(MPI_Irecv(c.others.data(), 1, MPI_INT64_T, int(to), tag, comm_, &c.agreement));
    request.check(MPI_Isend(c.asked.data(), 1, MPI_INT64_T, int(from), tag, comm_, request.next(int(from))));
  }
  static std::size_t digest_of(span<std::size_t const> sizes) {
    auto all = digest();
    for (auto const n : sizes) all << n;
    return all.value() >> 2;
  }

  template <class F>
  void for_each_piece(std::size_t n, F const& f) const {
    for (std::size_t at = 0; at < n; at += most_) f(at, static_cast<int>(std::min(most_, n - at)));
  }
  /// MPI's displacements are ints, and its nonblocking collectives take host memory.
  template <class E>
  bool is_one_call(std::size_t n) const {
    return host_executor<E> && n <= most_;
  }

  /// Calls of ranks are in one order, and each has two tags of its own.
  int next_tag() { return static_cast<int>(2 * (calls_++ % 16384)); }

  template <class E>
  void send(mpi_request& request, span_on<E, std::byte const> mine, unsigned to, int tag) {
    for_each_piece(mine.size(), [&](std::size_t at, int n) {
      request.check(MPI_Isend(mine.data() + at, n, MPI_BYTE, static_cast<int>(to), tag, comm_, request.next(int(to))));
    });
  }
  template <class E>
  void receive(mpi_request& request, span_on<E, std::byte> theirs, unsigned from, int tag) {
    for_each_piece(theirs.size(), [&](std::size_t at, int n) {
      request.check(
          MPI_Irecv(theirs.data() + at, n, MPI_BYTE, static_cast<int>(from), tag, comm_, request.next(int(from), n)));
    });
  }
  /// `to(r)` goes to each rank r, and `from(r)` comes from it: what one call of MPI cannot move.
  template <class E, class To, class From>
  void exchange(mpi_request& request, To const& to, From const& from) {
    auto const tag = next_tag();
    for (unsigned r = 0; r < size(); ++r) receive<E>(request, from(r), r, tag);
    for (unsigned r = 0; r < size(); ++r) send<E>(request, to((rank() + r) % size()), (rank() + r) % size(), tag);
  }

  /// The r-th of pieces that lie one after another.
  template <class Byte, class Space>
  static span<Byte, Space> part(span<Byte, Space> all, span<std::size_t const> sizes, unsigned r) {
    auto const first = std::accumulate(sizes.begin(), sizes.begin() + r, std::size_t{0});
    return all.subspan(first, sizes[r]);
  }
  /// Counts and then displacements of pieces that lie one after another, for as long as the request lives.
  static int const* layout(mpi_request& request, span<std::size_t const> sizes) {
    auto& all = request.call().counts;
    for (auto const n : sizes) all.push_back(static_cast<int>(n));
    for (int at = 0; auto const n : sizes) all.push_back(std::exchange(at, at + static_cast<int>(n)));
    return all.data();
  }

  struct operations {
    MPI_Op sum = MPI_SUM, max = MPI_MAX;
  };
  template <class T>
  void narrow(operations& ops) {
    link_.check(MPI_Op_create(&detail::reduce_narrow<T, reduction::sum>, 1, &ops.sum), "MPI_Op_create");
    link_.check(MPI_Op_create(&detail::reduce_narrow<T, reduction::max>, 1, &ops.max), "MPI_Op_create");
  }
  template <class T>
  MPI_Op operation(reduction how) const {
    auto const ops = std::same_as<T, half> ? half_ : std::same_as<T, bfloat16> ? bfloat16_ : operations();
    return how == reduction::sum ? ops.sum : ops.max;
  }

  detail::mpi_link link_;
  std::size_t most_;
  std::uint32_t calls_ = 0;
  operations half_, bfloat16_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 0;
  int threads_ = MPI_THREAD_SINGLE;
};

static_assert(exchanges<mpi_communicator, detail::archetype> &&
              communicates_in_full<mpi_communicator, detail::archetype>);

}  // namespace pith::inline v0
