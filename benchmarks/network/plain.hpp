// benchmarks/network/plain.hpp — the transfers of a step, noted down and then done by MPI alone.
#pragma once

#include <pith/comm/mpi.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace network {

/// A collective call and the bytes that a rank hands to it, which are no others than elements of a type.
struct noted_transfer {
  enum class collective : std::uint8_t { all_gather, all_to_all, all_reduce } call;
  std::size_t bytes;
  MPI_Datatype type;
};
using notes = std::vector<noted_transfer>;

/// A communicator that notes what is asked of another.
template <class Comm>
class noting_communicator {
 public:
  noting_communicator(Comm comm, notes& to) : comm_(std::move(comm)), notes_(&to) {}

  unsigned rank() const { return comm_.rank(); }
  unsigned size() const { return comm_.size(); }

  template <pith::executor E>
  auto all_gather(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    notes_->push_back({noted_transfer::collective::all_gather, mine.size(), MPI_BYTE});
    return comm_.all_gather(exec, mine, all);
  }
  template <pith::executor E>
  auto all_to_all(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    notes_->push_back({noted_transfer::collective::all_to_all, mine.size(), MPI_BYTE});
    return comm_.all_to_all(exec, mine, all);
  }
  template <pith::executor E, class T>
  auto all_reduce(E const& exec, pith::span<T> x, pith::reduction how) {
    notes_->push_back({noted_transfer::collective::all_reduce, x.size_bytes(), pith::detail::mpi_type<T>()});
    return comm_.all_reduce(exec, x, how);
  }

 private:
  Comm comm_;
  notes* notes_;
};

/// Does again what was noted, in blocking calls on memory of its own. 16-bit floats are added as integers.
class plain_exchange {
 public:
  plain_exchange(notes noted, int ranks) : noted_(std::move(noted)), ranks_(ranks) {
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
    switch (t.call) {
      case noted_transfer::collective::all_gather:
        MPI_Allgather(mine_.data(), n, t.type, all_.data(), n, t.type, MPI_COMM_WORLD);
        break;
      case noted_transfer::collective::all_to_all:
        MPI_Alltoall(mine_.data(), n / ranks_, t.type, all_.data(), n / ranks_, t.type, MPI_COMM_WORLD);
        break;
      case noted_transfer::collective::all_reduce:
        MPI_Allreduce(MPI_IN_PLACE, mine_.data(), n, t.type, MPI_SUM, MPI_COMM_WORLD);
        break;
    }
  }

  notes noted_;
  int ranks_;
  std::vector<std::byte> mine_, all_;
};

}  // namespace network
