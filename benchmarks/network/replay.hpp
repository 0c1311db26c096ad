// benchmarks/network/replay.hpp — records the transfers of a step and the received bytes, and replays them.
#pragma once

#include <pith/comm/mpi.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace network {

/// A call of a communicator: its ranks, the bytes of a rank, and for pairs the destination, the source and the received
/// bytes.
struct noted_transfer {
  enum class call : std::uint8_t { all_gather, all_to_all, all_reduce, send_recv } made;
  MPI_Comm among;
  std::size_t bytes;
  MPI_Datatype type = MPI_BYTE;
  unsigned to = 0, from = 0;
  std::size_t received = 0;
};
using notes = std::vector<noted_transfer>;

/// An MPI communicator that records the received bytes of the first step and returns them immediately in later steps.
/// A codec then runs without transfers but with the work of a step. Its sub-communicators share the recording.
class replaying_communicator {
 public:
  using call = noted_transfer::call;

  explicit replaying_communicator(MPI_Comm comm) : replaying_communicator(duplicate(comm), std::make_shared<tape>()) {}

  replaying_communicator split(unsigned color) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(ranks_->plain, static_cast<int>(color), static_cast<int>(rank()), &part);
    return {part, tape_};
  }

  /// The next step uses the communicator and records its transfers.
  void record() { *tape_ = {}; }
  void replay() {
    tape_->is_recording = false;
    tape_->next = 0;
  }
  notes const& noted() const { return tape_->noted; }

  unsigned rank() const { return ranks_->comm.rank(); }
  unsigned size() const { return ranks_->comm.size(); }

  template <pith::executor E>
  pith::completed all_gather(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    return moved(exec, {call::all_gather, ranks_->plain, mine.size()}, all,
                 [&](auto& comm) { return comm.all_gather(exec, mine, all); });
  }
  template <pith::executor E>
  pith::completed all_to_all(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    return moved(exec, {call::all_to_all, ranks_->plain, mine.size()}, all,
                 [&](auto& comm) { return comm.all_to_all(exec, mine, all); });
  }
  template <pith::executor E, class T>
  pith::completed all_reduce(E const& exec, pith::span<T> x, pith::reduction how) {
    auto const bytes = pith::span<std::byte>(reinterpret_cast<std::byte*>(x.data()), x.size_bytes());
    return moved(exec, {call::all_reduce, ranks_->plain, x.size_bytes(), pith::detail::mpi_type<T>()}, bytes,
                 [&](auto& comm) { return comm.all_reduce(exec, x, how); });
  }
  template <pith::executor E>
  pith::completed send_recv(E const& exec, pith::span_on<E, std::byte const> mine, unsigned to,
                            pith::span_on<E, std::byte> theirs, unsigned from) {
    return moved(exec, {call::send_recv, ranks_->plain, mine.size(), MPI_BYTE, to, from, theirs.size()}, theirs,
                 [&](auto& comm) { return comm.send_recv(exec, mine, to, theirs, from); });
  }

 private:
  /// The ranks, and the communicator for plain MPI calls.
  struct ranks {
    explicit ranks(MPI_Comm own) : plain(own), comm(own) {}
    ranks(ranks const&) = delete;
    ranks& operator=(ranks const&) = delete;
    ~ranks() { MPI_Comm_free(&plain); }

    MPI_Comm plain;
    pith::mpi_communicator comm;
  };
  struct tape {
    bool is_recording = true;
    notes noted = {};
    std::vector<std::vector<std::byte>> arrived = {};
    std::size_t next = 0;
  };

  replaying_communicator(MPI_Comm own, std::shared_ptr<tape> shared)
      : ranks_(std::make_unique<ranks>(own)), tape_(std::move(shared)) {}

  static MPI_Comm duplicate(MPI_Comm comm) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &made);
    return made;
  }

  template <pith::executor E, class Transfer>
  pith::completed moved(E const& exec, noted_transfer const& note, pith::span<std::byte> into, Transfer const& make) {
    if (tape_->is_recording) {
      make(ranks_->comm).wait(exec);
      tape_->noted.push_back(note);
      tape_->arrived.emplace_back(into.begin(), into.end());
    } else {
      exec.copy(into.data(), tape_->arrived.at(tape_->next++).data(), into.size());
    }
    return {};
  }

  std::unique_ptr<ranks> ranks_;
  std::shared_ptr<tape> tape_;
};

}  // namespace network
