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
#include <utility>
#include <vector>

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

template <class T>
auto bytes_of(span<T> x) {
  using byte = std::conditional_t<std::is_const_v<T>, std::byte const, std::byte>;
  return span<byte>(reinterpret_cast<byte*>(x.data()), x.size_bytes());
}

}  // namespace detail

/// The ranks of a duplicate of `comm`. MPI's errors are thrown as communication_error, and end the communicator's use:
/// every later call throws the same, since nobody knows where the other ranks are.
///
///   needs    MPI_Init before and MPI_Finalize after its life; one thread at a time, another than MPI's own only where
///            MPI_Init_thread gave MPI_THREAD_SERIALIZED or more (std::invalid_argument), since
///            gradient_exchange::ready makes one. Calls that are under way go on only while one of them is waited for
///            or tested. MPICH ends the program on errors of requests unless MPI_COMM_WORLD, too, has MPI_ERRORS_RETURN
///   throws   where a call takes longer than `timeout` from the first wait or test on: a rank is gone or stuck. MPI may
///            then write to the call's memory whenever it runs, and MPI_Finalize may wait for ever: end the program by
///            MPI_Abort or std::_Exit
///   cost     a call reads and writes host memory itself, so it waits for the executor. Bytes are swapped by pairs of
///            ranks, one pair after another. Device memory needs an MPI that is aware of CUDA; sums and broadcasts of
///            it block, and have no deadline, since Open MPI's nonblocking ones cannot take it. More than `most`
///            elements travel in pieces: MPI counts in ints, and parts of it are wrong near 2^31
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
    return exchanged(begin(exec, "all_gather"), to_all(mine), cut(all));
  }

  template <executor E>
  mpi_request all_gather_v(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all,
                           span<std::size_t const> sizes) {
    arguments().all_gather_v(mine.size(), all.size(), sizes);
    return exchanged(begin(exec, "all_gather_v"), to_all(mine), cut(all, sizes));
  }

  template <executor E>
  mpi_request all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    return exchanged(begin(exec, "all_to_all"), cut(mine), cut(all));
  }

  template <executor E>
  mpi_request all_to_all_v(E const& exec, span_on<E, std::byte const> mine, span<std::size_t const> sizes_to,
                           span_on<E, std::byte> all, span<std::size_t const> sizes_from) {
    arguments().all_to_all_v(mine.size(), sizes_to, all.size(), sizes_from);
    return exchanged(begin(exec, "all_to_all_v"), cut(mine, sizes_to), cut(all, sizes_from));
  }

  template <executor E>
  mpi_request send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                        unsigned from) {
    arguments().send_recv(mine.size(), to, theirs.size(), from);
    auto request = begin(exec, "send_recv");
    then_swap<space_of<E>>(request, next_tag(), {{to, mine, from, theirs}});
    request.advance();
    return request;
  }

  /// Large sums on a host are those of parts, which their ranks add up and send to all: in the order of the ranks, so
  /// that bits do not depend on where in a transfer an element lies. Open MPI's nonblocking sums go around a ring, but
  /// up a tree and down again, with all bytes each time, where they are in place or of less than 64 KiB.
  template <executor E, class T>
  mpi_request all_reduce(E const& exec, span<T, space_of<E>> x, reduction how) {
    auto request = begin(exec, "all_reduce");
    if constexpr (host_executor<E>) {
      if (x.size_bytes() >= size() * least_part) return sum_parts(std::move(request), x, how);
    }
    for_each_piece(x.size(), [&](std::size_t at, int n) {
      auto const type = detail::mpi_type<T>();
      auto const op = operation<T>(how);
      request.check(host_executor<E> ? MPI_Iallreduce(MPI_IN_PLACE, x.data() + at, n, type, op, comm_, request.next())
                                     : MPI_Allreduce(MPI_IN_PLACE, x.data() + at, n, type, op, comm_));
    });
    return request;
  }

  template <executor E, class T>
  mpi_request reduce_scatter(E const& exec, span<std::type_identity_t<T> const, space_of<E>> mine,
                             span<T, space_of<E>> part, reduction how) {
    arguments().reduce_scatter(mine.size(), part.size());
    auto request = begin(exec, "reduce_scatter");
    if constexpr (host_executor<E>) {
      auto const sum = add_up<T>(request, next_tag(), cut(detail::bytes_of(mine)), part.size(), how);
      request.then([sum, part](mpi_request&) { std::copy(sum.begin(), sum.end(), part.begin()); });
      request.advance();
    } else {
      for (int root = 0; root < size_; ++root) {
        auto const* const from = mine.data() + static_cast<std::size_t>(root) * part.size();
        for_each_piece(part.size(), [&](std::size_t at, int n) {
          request.check(
              MPI_Reduce(from + at, part.data() + at, n, detail::mpi_type<T>(), operation<T>(how), root, comm_));
        });
      }
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
    require_thread("split");
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
    link_.check(MPI_Query_thread(&threads_), "MPI_Query_thread");
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

  void require_thread(char const* call) const {
    if (threads_ >= MPI_THREAD_SERIALIZED) return;
    int is_main = 0;
    MPI_Is_thread_main(&is_main);
    detail::require(is_main, "mpi: ", call, " on a thread of its own needs MPI_Init_thread with MPI_THREAD_SERIALIZED ",
                    "or more in place of MPI_Init");
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

  template <class F>
  void for_each_piece(std::size_t n, F const& f) const {
    for_each_piece(n, most_, f);
  }
  template <class F>
  static void for_each_piece(std::size_t n, std::size_t most, F const& f) {
    for (std::size_t at = 0; at < n; at += most) f(at, static_cast<int>(std::min(most, n - at)));
  }
  template <class Space>
  std::size_t longest_message() const {
    return std::same_as<Space, host_space> ? std::min(most_, short_message) : most_;
  }

  /// Calls of ranks are in one order, and each has its tag, so that the steps of one are not taken for another's.
  int next_tag() { return static_cast<int>(calls_++ % 32768); }

  template <class Space>
  void send(mpi_request& request, span<std::byte const, Space> mine, unsigned to, int tag) {
    for_each_piece(mine.size(), longest_message<Space>(), [&](std::size_t at, int n) {
      request.check(MPI_Isend(mine.data() + at, n, MPI_BYTE, static_cast<int>(to), tag, comm_, request.next()));
    });
  }
  template <class Space>
  void receive(mpi_request& request, span<std::byte, Space> theirs, unsigned from, int tag) {
    for_each_piece(theirs.size(), longest_message<Space>(), [&](std::size_t at, int n) {
      request.check(
          MPI_Irecv(theirs.data() + at, n, MPI_BYTE, static_cast<int>(from), tag, comm_, request.next(from, n)));
    });
  }

  /// What goes to, or comes from, each rank.
  template <class Byte, class Space>
  using pieces = std::vector<span<Byte, Space>>;

  template <class Space>
  pieces<std::byte const, Space> to_all(span<std::byte const, Space> mine) const {
    return {size(), mine};
  }
  template <class Byte, class Space>
  pieces<Byte, Space> cut(span<Byte, Space> all, span<std::size_t const> sizes) const {
    auto made = pieces<Byte, Space>();
    std::size_t at = 0;
    for (auto const n : sizes) made.push_back(all.subspan(std::exchange(at, at + n), n));
    return made;
  }
  template <class Byte, class Space>
  pieces<Byte, Space> cut(span<Byte, Space> all) const {
    auto const sizes = std::vector(size(), all.size() / size());
    return cut(all, span<std::size_t const>(sizes));
  }

  template <class Space>
  struct swap {
    unsigned to;
    span<std::byte const, Space> mine;
    unsigned from;
    span<std::byte, Space> theirs;
  };

  /// Whom this rank meets in a round of a tournament, in which all meet each other once: itself, where nobody is left.
  unsigned met_in(unsigned round) const {
    auto const rounds = tournament_rounds();
    if (rank() == rounds) return static_cast<unsigned>(std::uint64_t{round} * (size() / 2) % rounds);
    auto const other = (round + rounds - rank()) % rounds;
    return other == rank() && rounds < size() ? rounds : other;
  }
  unsigned tournament_rounds() const { return size() - (size() % 2 == 0); }

  /// Ranks swap what they have for each other, pair by pair, as many at once as are for one `crowd`.
  template <class Space>
  void exchange(mpi_request& request, int tag, pieces<std::byte const, Space> const& to,
                pieces<std::byte, Space> const& from) {
    auto swaps = std::vector<swap<Space>>{{rank(), to[rank()], rank(), from[rank()]}};
    std::size_t bytes = 0;
    for (unsigned round = 0; round < tournament_rounds(); ++round) {
      auto const other = met_in(round);
      if (bytes >= crowd) then_swap<Space>(request, tag, std::exchange(swaps, {})), bytes = 0;
      if (other == rank()) continue;
      swaps.push_back({other, to[other], other, from[other]});
      bytes += std::max(to[other].size(), from[other].size());
    }
    then_swap<Space>(request, tag, swaps);
  }
  /// Slice by slice, the next one when this one is there.
  template <class Space>
  void then_swap(mpi_request& request, int tag, std::vector<swap<Space>> const& swaps) {
    std::size_t longest = 0;
    for (auto const& s : swaps) longest = std::max({longest, s.mine.size(), s.theirs.size()});
    auto const most = std::same_as<Space, host_space> ? slice : longest;
    for (std::size_t at = 0; at < longest; at += most) {
      auto const part = [at, most](auto x) {
        auto const rest = x.subspan(std::min(at, x.size()));
        return rest.first(std::min(most, rest.size()));
      };
      request.then([this, tag, swaps, part](mpi_request& r) {
        for (auto const& s : swaps) receive(r, part(s.theirs), s.from, tag);
        for (auto const& s : swaps) send(r, part(s.mine), s.to, tag);
      });
    }
  }
  template <class Space>
  mpi_request exchanged(mpi_request request, pieces<std::byte const, Space> const& to,
                        pieces<std::byte, Space> const& from) {
    exchange(request, next_tag(), to, from);
    request.advance();
    return request;
  }

  /// What each rank has for this one, `n` elements, added up in the order of the ranks.
  template <class T>
  span<T> add_up(mpi_request& request, int tag, pieces<std::byte const, host_space> const& to, std::size_t n,
                 reduction how) {
    auto const came = request.template memory<T>(size() * n);
    exchange(request, tag, to, cut(detail::bytes_of(came)));
    request.then([this, came, n, how](mpi_request& r) {
      for (std::size_t rank = 1; rank < size(); ++rank) {
        for_each_piece(n, [&](std::size_t at, int m) {
          auto const* const more = came.data() + rank * n + at;
          r.check(MPI_Reduce_local(more, came.data() + at, m, detail::mpi_type<T>(), operation<T>(how)));
        });
      }
    });
    return came.first(n);
  }
  template <class T>
  mpi_request sum_parts(mpi_request request, span<T> x, reduction how) {
    auto const begin = [&](std::size_t rank) { return rank * x.size() / size(); };
    auto parts = pieces<std::byte, host_space>();
    for (std::size_t r = 0; r < size(); ++r)
      parts.push_back(detail::bytes_of(x.subspan(begin(r), begin(r + 1) - begin(r))));
    auto const tag = next_tag();
    auto const sum = add_up<T>(request, tag, {parts.begin(), parts.end()}, parts[rank()].size() / sizeof(T), how);
    exchange(request, tag, to_all(span<std::byte const>(detail::bytes_of(sum))), parts);
    request.advance();
    return request;
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

  /// More bytes, to several ranks at once or to one while those of another come, crowd links: over links of 100 Mbit/s
  /// gatherings of 256 KiB took up to 1.6 times as long.
  static constexpr std::size_t crowd = std::size_t{1} << 15;
  /// What MPI sends without asking the receiver first: over links of 1000 Mbit/s two ranks swap 1 MiB each in 1.04 times
  /// what the wire takes in such messages, in 1.2 to 1.8 times that in one. But all of them at once fill the queues of
  /// slow links, in which what acknowledges the other's has to wait: up to 1.6 times at 10 Mbit/s.
  static constexpr std::size_t short_message = std::size_t{1} << 15;
  static constexpr std::size_t slice = 4 * short_message;
  static constexpr std::size_t least_part = 512;

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
