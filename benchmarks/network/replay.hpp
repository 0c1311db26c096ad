// benchmarks/network/replay.hpp — the transfers of a step, noted down, and what arrived in them, to arrive again.
#pragma once

#include <pith/comm/mpi.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace network {

/// A call of a communicator: the bytes that a rank hands to it; of a pair's, whom to and from whom how many come.
struct noted_transfer {
  enum class call : std::uint8_t { all_gather, all_to_all, all_reduce, send_recv } made;
  std::size_t bytes;
  MPI_Datatype type = MPI_BYTE;
  unsigned to = 0, from = 0;
  std::size_t received = 0;
};
using notes = std::vector<noted_transfer>;

/// The ranks of another communicator as they were in the first step: what arrived then arrives again in all others, at
/// once, so that a codec is by itself and has the work that it has in a step.
class replaying_communicator {
 public:
  using call = noted_transfer::call;

  explicit replaying_communicator(pith::mpi_communicator& comm) : comm_(&comm) {}

  /// The next step's transfers are those of the communicator, and are noted.
  void record() {
    is_recording_ = true;
    notes_.clear();
    arrived_.clear();
  }
  void replay() {
    is_recording_ = false;
    next_ = 0;
  }
  notes const& noted() const { return notes_; }

  unsigned rank() const { return comm_->rank(); }
  unsigned size() const { return comm_->size(); }

  template <pith::executor E>
  pith::completed all_gather(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    return moved(exec, {call::all_gather, mine.size()}, all, [&] { return comm_->all_gather(exec, mine, all); });
  }
  template <pith::executor E>
  pith::completed all_to_all(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    return moved(exec, {call::all_to_all, mine.size()}, all, [&] { return comm_->all_to_all(exec, mine, all); });
  }
  template <pith::executor E, class T>
  pith::completed all_reduce(E const& exec, pith::span<T> x, pith::reduction how) {
    return moved(exec, {call::all_reduce, x.size_bytes(), pith::detail::mpi_type<T>()}, pith::detail::bytes_of(x),
                 [&] { return comm_->all_reduce(exec, x, how); });
  }
  template <pith::executor E>
  pith::completed send_recv(E const& exec, pith::span_on<E, std::byte const> mine, unsigned to,
                            pith::span_on<E, std::byte> theirs, unsigned from) {
    return moved(exec, {call::send_recv, mine.size(), MPI_BYTE, to, from, theirs.size()}, theirs,
                 [&] { return comm_->send_recv(exec, mine, to, theirs, from); });
  }

 private:
  template <pith::executor E, class Transfer>
  pith::completed moved(E const& exec, noted_transfer const& note, pith::span<std::byte> into, Transfer const& make) {
    if (is_recording_) {
      make().wait(exec);
      notes_.push_back(note);
      arrived_.emplace_back(into.begin(), into.end());
    } else {
      exec.copy(into.data(), arrived_.at(next_++).data(), into.size());
    }
    return {};
  }

  pith::mpi_communicator* comm_;
  bool is_recording_ = true;
  notes notes_;
  std::vector<std::vector<std::byte>> arrived_;
  std::size_t next_ = 0;
};

}  // namespace network
