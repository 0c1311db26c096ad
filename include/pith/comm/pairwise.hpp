// pith/comm/pairwise.hpp — a communicator whose all-gathers and all-to-alls are pairwise swaps.
#pragma once

#include <pith/comm/detail/adaptor.hpp>
#include <pith/comm/detail/arguments.hpp>
#include <pith/comm/detail/lent.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace pith { inline namespace PITH_ABI {

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
class pairwise : public detail::communicator_adaptor<Comm> {
  using base = detail::communicator_adaptor<Comm>;

 public:
  using base::rank;
  using base::size;

  template <class... Arguments>
    requires(detail::constructs<pairwise, Arguments...>)
  explicit pairwise(Arguments&&... arguments) : base(std::forward<Arguments>(arguments)...) {}

  pith::optional_calls optional_calls() const requires detail::has_optional_calls<Comm> {
    auto calls = base::optional_calls();
    calls.all_to_all = true;
    return calls;
  }

  template <executor E>
  auto all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_gather(mine.size(), all.size());
    return swap(
        exec, mine.size(), [&](unsigned) { return mine; }, all);
  }
  template <executor E>
  auto all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    auto const n = mine.size() / size();
    return swap(
        exec, n, [&](unsigned r) { return mine.subspan(r * n, n); }, all);
  }
  pairwise split(unsigned color) requires detail::has_split<Comm> { return pairwise(part_of{}, comm_, color); }

 private:
  using base::comm_;
  using typename base::part_of;

  pairwise(part_of part, Comm& whole, unsigned color) : base(part, whole, color) {}

  detail::collective_arguments arguments() const { return {"pairwise", rank(), size()}; }

  /// The request of a completed call. If a swap threw, the transport of `Comm` may still use the memory of the call.
  template <class Swap>
  struct swapped : completed {
    static constexpr bool returns_memory = detail::returns_memory<Swap>;
  };

  /// Sends piece(r) to each rank r, and receives n bytes from each rank.
  template <class E, class Piece>
  auto swap(E const& exec, std::size_t n, Piece const& piece, span_on<E, std::byte> all) {
    static_assert(calls_of<Comm, E>.send_recv,
                  "pith: pairwise<Comm> needs a Comm with send_recv(exec, span<std::byte const>, unsigned, "
                  "span<std::byte>, unsigned)");
    auto const swap_with = [&](unsigned other) {
      auto const bytes = other == rank() ? 0 : n;
      return comm_.send_recv(exec, piece(other).first(bytes), other, all.subspan(other * n, bytes), other);
    };
    exec.copy(all.data() + rank() * n, piece(rank()).data(), n);
    for (unsigned round = 0; round < rounds(); ++round) swap_with(partner(round)).wait(exec);
    return swapped<decltype(swap_with(0))>();
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
};

}}  // namespace pith::PITH_ABI
