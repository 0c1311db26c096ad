// pith/comm/pairwise.hpp — a communicator whose all-gathers and all-to-alls are pairwise swaps.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/comm/detail/arguments.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace pith::inline v0 {

/// Adapts a `Comm` so that its all-gathers and all-to-alls are pairwise swaps. The constructor has the parameters of
/// `Comm`'s constructor. The swaps follow a round-robin schedule, so a rank receives from only one other rank at a
/// time. docs/network.md shows where pairwise swaps are faster than MPI's own collectives.
///
///   auto comm = pith::pairwise<pith::mpi_communicator>(MPI_COMM_WORLD);
///
///   requires    a communicator with send_recv; one thread at a time
///   complexity  each of the N ranks sends and receives (N - 1) / N of the bytes of `all`, in N - 1 successive swaps.
///               all_gather and all_to_all complete before they return. Both calls allocate only in the send_recv of
///               Comm
///   errors      the errors of Comm
///   owns        the Comm
template <class Comm>
class pairwise {
 public:
  template <class... Arguments>
  explicit pairwise(Arguments&&... arguments) : comm_(std::forward<Arguments>(arguments)...) {}

  unsigned rank() const { return comm_.rank(); }
  unsigned size() const { return comm_.size(); }
  void require_thread_support() const requires detail::has_thread_check<Comm> { comm_.require_thread_support(); }

  template <executor E>
  completed all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_gather(mine.size(), all.size());
    return swap(
        exec, mine.size(), [&](unsigned) { return mine; }, all);
  }
  template <executor E>
  completed all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    auto const n = mine.size() / size();
    return swap(
        exec, n, [&](unsigned r) { return mine.subspan(r * n, n); }, all);
  }
  template <executor E>
  auto send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                 unsigned from) {
    return comm_.send_recv(exec, mine, to, theirs, from);
  }
  template <executor E, class T>
  auto all_reduce(E const& exec, span<T, space_of<E>> x, reduction how) {
    return comm_.all_reduce(exec, x, how);
  }
  template <executor E, class T>
  auto reduce_scatter(E const& exec, span<std::type_identity_t<T> const, space_of<E>> mine, span<T, space_of<E>> part,
                      reduction how) {
    return comm_.reduce_scatter(exec, mine, part, how);
  }
  template <executor E>
  auto broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    return comm_.broadcast(exec, x, root);
  }
  pairwise split(unsigned color) { return pairwise(part_of{}, comm_, color); }

 private:
  struct part_of {};
  pairwise(part_of, Comm& whole, unsigned color) : comm_(whole.split(color)) {}

  detail::collective_arguments arguments() const { return {"pairwise", rank(), size()}; }

  /// Sends piece(r) to each rank r, and receives n bytes from each rank.
  template <class E, class Piece>
  completed swap(E const& exec, std::size_t n, Piece const& piece, span_on<E, std::byte> all) {
    exec.copy(all.data() + rank() * n, piece(rank()).data(), n);
    for (unsigned round = 0; round < rounds(); ++round) {
      auto const other = partner(round);
      auto const bytes = other == rank() ? 0 : n;
      comm_.send_recv(exec, piece(other).first(bytes), other, all.subspan(other * n, bytes), other).wait(exec);
    }
    return {};
  }

  unsigned rounds() const { return size() - (size() % 2 == 0); }
  /// Ranks i and j, both below rounds(), swap in round (i + j) % rounds(). In each round, one rank below rounds() has
  /// no such partner. With an even number of ranks, that rank swaps with the last rank. With an odd number of ranks,
  /// that rank is idle, and partner() returns the rank itself.
  unsigned partner(unsigned round) const {
    auto const all = rounds();
    if (rank() == all) return static_cast<unsigned>(std::uint64_t{round} * (size() / 2) % all);
    auto const other = (round + all - rank()) % all;
    return other == rank() && all < size() ? all : other;
  }

  Comm comm_;
};

}  // namespace pith::inline v0
