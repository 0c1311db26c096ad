// examples/own/barrier_communicator.hpp — a communicator of threads that read each other's memory between barriers.
#pragma once

#include <pith/comm/communicator.hpp>

#include <algorithm>
#include <barrier>
#include <vector>

/// The address of each rank's memory, and a barrier for all ranks.
struct meeting_place {
  explicit meeting_place(unsigned ranks) : memory(ranks), all_here(ranks) {}
  std::vector<void const*> memory;
  std::barrier<> all_here;
};

/// Works with every host executor, since a pith::span is in host memory. A rank that throws leaves the other ranks
/// waiting; pith::thread_communicator has a timeout.
class barrier_communicator {
 public:
  barrier_communicator(meeting_place& place, unsigned rank) : place_(place), rank_(rank) {}

  unsigned rank() const { return rank_; }
  unsigned size() const { return static_cast<unsigned>(place_.memory.size()); }

  /// Every rank's `mine`, in rank order. This call completes before it returns; others may return a request.
  template <pith::executor E>
  pith::completed all_gather(E const&, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    read_all(mine.data(), [&](std::byte const* theirs, unsigned rank) {
      std::copy_n(theirs, mine.size(), all.data() + rank * mine.size());
    });
    return {};
  }
  /// In place and in rank order, so that all ranks get the same bits.
  template <pith::executor E, class T>
  pith::completed all_reduce(E const&, pith::span<T> x, pith::reduction how) {
    auto result = std::vector<T>(x.size());
    read_all(x.data(), [&](T const* theirs, unsigned rank) {
      for (std::size_t i = 0; i < x.size(); ++i)
        result[i] = rank == 0 ? theirs[i] : pith::reduced(result[i], theirs[i], how);
    });
    std::copy(result.begin(), result.end(), x.data());
    return {};
  }

 private:
  /// Calls f with each rank's data. All ranks have read all data when it returns.
  template <class T, class F>
  void read_all(T const* mine, F const& f) {
    place_.memory[rank_] = mine;
    place_.all_here.arrive_and_wait();
    for (unsigned rank = 0; rank < size(); ++rank) f(static_cast<T const*>(place_.memory[rank]), rank);
    place_.all_here.arrive_and_wait();
  }

  meeting_place& place_;
  unsigned rank_;
};
static_assert(pith::communicator<barrier_communicator, pith::archetype>);
