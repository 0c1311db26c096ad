// pith/comm/mpi.hpp — ranks of an MPI communicator.
#pragma once

#include <pith/comm/arguments.hpp>
#include <pith/comm/communicator.hpp>
#include <pith/comm/mpi_device.hpp>
#include <pith/comm/mpi_request.hpp>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pith::inline v0 {

namespace detail {

/// The bytes of each rank's piece: all equal, or said one by one.
struct piece_sizes {
  std::size_t equal;
  span<std::size_t const> uneven = {};

  std::size_t operator[](unsigned rank) const { return uneven.empty() ? equal : uneven[rank]; }
};

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

/// The ranks of a duplicate of `comm`. MPI's errors are thrown as communication_error, and end the communicator's use:
/// every later call throws the same, since nobody knows where the other ranks are.
///
///   needs    MPI_Init before and MPI_Finalize after its life; one thread at a time. MPICH ends the program on errors
///            of requests unless MPI_COMM_WORLD, too, has MPI_ERRORS_RETURN
///   throws   where a call takes longer than `timeout` from the first wait or test on: a rank is gone or stuck. MPI may
///            then write to the call's memory whenever it runs, and MPI_Finalize may wait for ever: end the program by
///            MPI_Abort or std::_Exit
///   cost     a call reads and writes host memory itself, so it waits for the executor. Device memory needs an MPI that
///            is aware of CUDA; collectives on it block, and have no deadline, since Open MPI's nonblocking ones cannot
///            take it. More than `most` elements travel in pieces: MPI counts in ints, and parts of it are wrong near
///            2^31
class mpi_communicator {
 public:
  using duration = std::chrono::duration<double>;

  explicit mpi_communicator(MPI_Comm comm, duration timeout = std::chrono::minutes(30),
                            std::size_t most = std::size_t{1} << 27)
      : mpi_communicator(own{duplicate(comm, timeout)}, timeout, most) {}
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
    auto request = begin(exec, "all_gather");
    if (all.size() > most_) {
      receive_pieces(request, all, detail::piece_sizes{mine.size()});
      send_all(request, mine);
      return request;
    }
    auto const n = static_cast<int>(mine.size());
    request.check(host_executor<E>
                      ? MPI_Iallgather(mine.data(), n, MPI_BYTE, all.data(), n, MPI_BYTE, comm_, request.next())
                      : MPI_Allgather(mine.data(), n, MPI_BYTE, all.data(), n, MPI_BYTE, comm_));
    return request;
  }

  template <executor E>
  mpi_request all_gather_v(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all,
                           span<std::size_t const> sizes) {
    arguments().all_gather_v(mine.size(), all.size(), sizes);
    auto request = begin(exec, "all_gather_v");
    receive_pieces(request, all, detail::piece_sizes{0, sizes});
    send_all(request, mine);
    return request;
  }

  template <executor E>
  mpi_request all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    auto request = begin(exec, "all_to_all");
    auto const piece = mine.size() / size();
    if (all.size() > most_) {
      receive_pieces(request, all, detail::piece_sizes{piece});
      send_pieces(request, mine, detail::piece_sizes{piece});
      return request;
    }
    auto const n = static_cast<int>(piece);
    request.check(host_executor<E>
                      ? MPI_Ialltoall(mine.data(), n, MPI_BYTE, all.data(), n, MPI_BYTE, comm_, request.next())
                      : MPI_Alltoall(mine.data(), n, MPI_BYTE, all.data(), n, MPI_BYTE, comm_));
    return request;
  }

  template <executor E>
  mpi_request all_to_all_v(E const& exec, span_on<E, std::byte const> mine, span<std::size_t const> sizes_to,
                           span_on<E, std::byte> all, span<std::size_t const> sizes_from) {
    arguments().all_to_all_v(mine.size(), sizes_to, all.size(), sizes_from);
    auto request = begin(exec, "all_to_all_v");
    receive_pieces(request, all, detail::piece_sizes{0, sizes_from});
    send_pieces(request, mine, detail::piece_sizes{0, sizes_to});
    return request;
  }

  template <executor E>
  mpi_request send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                        unsigned from) {
    arguments().send_recv(mine.size(), to, theirs.size(), from);
    auto request = begin(exec, "send_recv");
    receive(request, theirs, from);
    send(request, mine, to);
    return request;
  }

  /// On a host out of a copy: Open MPI's nonblocking sums in place go up a tree and down again, each time with all
  /// bytes, where those of other memory go around a ring.
  template <executor E, class T>
  mpi_request all_reduce(E const& exec, span<T, space_of<E>> x, reduction how) {
    auto request = begin(exec, "all_reduce");
    auto const type = detail::mpi_type<T>();
    auto const op = operation<T>(how);
    if constexpr (host_executor<E>) {
      auto const* const from = request.copy(span<T const>(x));
      for_each_piece(x.size(), [&](std::size_t at, int n) {
        request.check(MPI_Iallreduce(from + at, x.data() + at, n, type, op, comm_, request.next()));
      });
    } else {
      for_each_piece(x.size(), [&](std::size_t at, int n) {
        request.check(MPI_Allreduce(MPI_IN_PLACE, x.data() + at, n, type, op, comm_));
      });
    }
    return request;
  }

  /// A reduction to each rank, since a rank is then sent its part alone: 0.38 s in place of the 0.88 s of Open MPI's
  /// MPI_Ireduce_scatter_block, of 4 parts of 1 MiB over links of 100 Mbit/s.
  template <executor E, class T>
  mpi_request reduce_scatter(E const& exec, span<std::type_identity_t<T> const, space_of<E>> mine,
                             span<T, space_of<E>> part, reduction how) {
    arguments().reduce_scatter(mine.size(), part.size());
    auto request = begin(exec, "reduce_scatter");
    auto const type = detail::mpi_type<T>();
    auto const op = operation<T>(how);
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
    arguments().peer("broadcast", root);
    auto request = begin(exec, "broadcast");
    auto const from = static_cast<int>(root);
    for_each_piece(x.size(), [&](std::size_t at, int n) {
      request.check(host_executor<E> ? MPI_Ibcast(x.data() + at, n, MPI_BYTE, from, comm_, request.next())
                                     : MPI_Bcast(x.data() + at, n, MPI_BYTE, from, comm_));
    });
    return request;
  }

  mpi_communicator split(unsigned color) {
    detail::require(color <= INT_MAX, "mpi: split takes colours up to 2^31 - 1, got ", color);
    link_.require_usable();
    meet();
    MPI_Comm part = MPI_COMM_NULL;
    link_.check(MPI_Comm_split(comm_, static_cast<int>(color), rank_, &part), "MPI_Comm_split");
    return mpi_communicator(own{part}, link_.timeout(), most_);
  }

 private:
  /// A communicator that is no one else's.
  struct own {
    MPI_Comm comm;
  };

  mpi_communicator(own made, duration timeout, std::size_t most) : link_(timeout), most_(most), comm_(made.comm) {
    detail::require(most >= 1 && most <= INT_MAX, "mpi: a call of MPI takes 1 to 2^31 - 1 elements, got ", most);
    link_.check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    link_.check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    link_.check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    narrow<half>(half_);
    narrow<bfloat16>(bfloat16_);
  }

  static MPI_Comm duplicate(MPI_Comm comm, duration timeout) {
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

  detail::collective_arguments arguments() const { return {"mpi", rank(), size()}; }

  /// What the executor was asked for must be done before MPI reads memory.
  template <class E>
  mpi_request begin(E const& exec, char const* call) {
    link_.require_usable();
    if constexpr (!host_executor<E>) detail::require_cuda_aware();
    exec.wait();
    return {link_, call};
  }

  template <class F>
  void for_each_piece(std::size_t n, F const& f) const {
    for (std::size_t at = 0; at < n; at += most_) f(at, static_cast<int>(std::min(most_, n - at)));
  }

  template <class Space>
  void send(mpi_request& request, span<std::byte const, Space> mine, unsigned to) {
    for_each_piece(mine.size(), [&](std::size_t at, int n) {
      request.check(MPI_Isend(mine.data() + at, n, MPI_BYTE, static_cast<int>(to), 0, comm_, request.next()));
    });
  }
  template <class Space>
  void receive(mpi_request& request, span<std::byte, Space> theirs, unsigned from) {
    for_each_piece(theirs.size(), [&](std::size_t at, int n) {
      request.check(
          MPI_Irecv(theirs.data() + at, n, MPI_BYTE, static_cast<int>(from), 0, comm_, request.next(from, n)));
    });
  }

  /// Point to point, as MPI's own calls say sizes and places in ints.
  template <class Space>
  void receive_pieces(mpi_request& request, span<std::byte, Space> all, detail::piece_sizes const& bytes) {
    std::size_t offset = 0;
    for (unsigned r = 0; r < size(); offset += bytes[r++]) receive(request, all.subspan(offset, bytes[r]), r);
  }
  template <class Space>
  void send_pieces(mpi_request& request, span<std::byte const, Space> mine, detail::piece_sizes const& bytes) {
    std::size_t offset = 0;
    for (unsigned r = 0; r < size(); offset += bytes[r++]) send(request, mine.subspan(offset, bytes[r]), r);
  }
  /// Each rank begins with another one.
  template <class Space>
  void send_all(mpi_request& request, span<std::byte const, Space> mine) {
    for (unsigned i = 0; i < size(); ++i) send(request, mine, (rank() + i) % size());
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
  operations half_, bfloat16_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 0;
};

static_assert(exchanges<mpi_communicator, detail::archetype> &&
              communicates_in_full<mpi_communicator, detail::archetype>);

}  // namespace pith::inline v0
