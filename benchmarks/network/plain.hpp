// benchmarks/network/plain.hpp — the transfers of a step, noted down and then done by MPI alone.
#pragma once

#include <pith/comm/mpi.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace network {

/// A call of a communicator and the bytes that a rank hands to it. Pairs: rank 0 sends to rank `to`, hears from `from`.
struct noted_transfer {
  enum class call : std::uint8_t { all_gather, all_to_all, all_reduce, send_recv } made;
  std::size_t bytes;
  MPI_Datatype type = MPI_BYTE;
  unsigned to = 0, from = 0;
};
using notes = std::vector<noted_transfer>;

/// A communicator of rank 0 that notes what is asked of another. Who is sent a pair has sent the same.
template <class Comm>
class noting_communicator {
 public:
  using call = noted_transfer::call;

  explicit noting_communicator(Comm comm) : comm_(std::move(comm)) {}

  Comm& noted() { return comm_; }
  notes take_notes() { return std::exchange(notes_, {}); }

  unsigned rank() const { return comm_.rank(); }
  unsigned size() const { return comm_.size(); }

  template <pith::executor E>
  auto all_gather(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    notes_.push_back({call::all_gather, mine.size()});
    return comm_.all_gather(exec, mine, all);
  }
  template <pith::executor E>
  auto all_to_all(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    notes_.push_back({call::all_to_all, mine.size()});
    return comm_.all_to_all(exec, mine, all);
  }
  template <pith::executor E, class T>
  auto all_reduce(E const& exec, pith::span<T> x, pith::reduction how) {
    notes_.push_back({call::all_reduce, x.size_bytes(), pith::detail::mpi_type<T>()});
    return comm_.all_reduce(exec, x, how);
  }
  template <pith::executor E>
  pith::completed send_recv(E const& exec, pith::span_on<E, std::byte const> mine, unsigned to,
                            pith::span_on<E, std::byte> theirs, unsigned from) {
    notes_.push_back({call::send_recv, mine.size(), MPI_BYTE, to, from});
    exec.copy(theirs.data(), mine.data(), mine.size());
    return {};
  }

 private:
  Comm comm_;
  notes notes_;
};

/// Does again what was noted, in blocking calls on memory of its own. 16-bit floats are added as integers. Ranks are a
/// power of two.
class plain_exchange {
 public:
  using call = noted_transfer::call;

  plain_exchange(notes noted, int rank, int ranks) : noted_(std::move(noted)), rank_(rank), ranks_(ranks) {
    std::size_t most = 0;
    for (auto const& t : noted_) most = t.bytes > most ? t.bytes : most;
    mine_.resize(most);
    all_.resize(most * static_cast<std::size_t>(ranks));
  }

  void run() {
    for (auto const& t : noted_) {
      auto size = 0;
      MPI_Type_size(t.type, &size);
      run(t, static_cast<int>(t.bytes) / size);
    }
  }

 private:
  void run(noted_transfer const& t, int n) {
    switch (t.made) {
      case call::all_gather: MPI_Allgather(mine_.data(), n, t.type, all_.data(), n, t.type, MPI_COMM_WORLD); break;
      case call::all_to_all:
        MPI_Alltoall(mine_.data(), n / ranks_, t.type, all_.data(), n / ranks_, t.type, MPI_COMM_WORLD);
        break;
      case call::all_reduce: MPI_Allreduce(MPI_IN_PLACE, mine_.data(), n, t.type, MPI_SUM, MPI_COMM_WORLD); break;
      case call::send_recv:
        MPI_Sendrecv(mine_.data(), n, t.type, peer(t, t.to), 0, all_.data(), n, t.type, peer(t, t.from), 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    }
  }

  /// What rank 0's peer is to this rank: a partner where it both sends and is sent to, else a neighbour in a ring.
  int peer(noted_transfer const& t, unsigned of_first) const {
    auto const other = static_cast<int>(of_first);
    return t.to == t.from ? rank_ ^ other : (rank_ + other) % ranks_;
  }

  notes noted_;
  int rank_, ranks_;
  std::vector<std::byte> mine_, all_;
};

}  // namespace network
