// pith/comm/function_communicator.hpp — a communicator on one function of an engine's own transport.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/comm/detail/arguments.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/core/error.hpp>
#include <pith/exec/detail/host_memory.hpp>

#include <cstddef>
#include <functional>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// A function that sends `mine` to rank `to`, receives `theirs` from rank `from`, and returns when both have ended. The
/// two ranks may differ, and neither of them is the calling rank. The size of `mine` equals that of `theirs` on rank
/// `to`, and may be 0. Rank `to` may itself be sending before it receives, so the function must send and receive at the
/// same time, as MPI_Sendrecv does.
using send_recv_function =
    std::function<void(span<std::byte const> mine, unsigned to, span<std::byte> theirs, unsigned from)>;

/// The communicator with send_recv alone. function_communicator adds the other calls.
class send_recv_communicator {
 public:
  send_recv_communicator(unsigned rank, unsigned size, send_recv_function send_recv)
      : rank_(rank), size_(size), send_recv_(std::move(send_recv)) {
    detail::require(size > 0, "function_communicator: 'size' must be at least 1, got 0");
    detail::require(rank < size, "function_communicator: 'rank' must be below ", size, ", got ", rank);
    detail::require(send_recv_ != nullptr, "function_communicator: 'send_recv' must be a function, got none");
  }

  unsigned rank() const { return rank_; }
  unsigned size() const { return size_; }

  template <detail::host_executor E>
  completed send_recv(E const& exec, span<std::byte const> mine, unsigned to, span<std::byte> theirs, unsigned from) {
    detail::collective_arguments{"function_communicator", rank_, size_}.send_recv(mine.size(), to, theirs.size(), from);
    if (to == rank_) {
      exec.copy(theirs.data(), mine.data(), mine.size());
    } else {
      exec.wait();
      send_recv_(mine, to, theirs, from);
    }
    return {};
  }

 private:
  unsigned rank_, size_;
  send_recv_function send_recv_;
};

/// A communicator for engines with a transport of their own: one function is the transport, and the collectives are
/// pairwise swaps and sums in rank order.
///
///   auto comm = pith::function_communicator(rank, ranks, [&](auto mine, unsigned to, auto theirs, unsigned from) {
///     my_transport.send_recv(mine.data(), mine.size(), to, theirs.data(), theirs.size(), from);
///   });
///
///   requires    host memory. One thread at a time calls the function: the thread that calls the exchange, or after a
///               call of ready() a thread of the exchange. Calls of different communicators need different connections
///               or tags
///   complexity  the bytes and swaps of pairwise and reproducible_sums. All calls complete before they return
///   errors      the function throws communication_error if a transfer failed, or if a rank is lost. The function has
///               its own timeout. std::invalid_argument if `rank` is not below `size`
///   owns        the function
using function_communicator = reproducible_sums<pairwise<send_recv_communicator>>;

}}  // namespace pith::PITH_ABI
