// pith/comm/detail/arguments.hpp — argument checks of the collectives, for all communicators.
#pragma once

#include <pith/core/error.hpp>

#include <cstddef>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Checks this rank's arguments of a collective. Each function receives the sizes of the call's spans, and throws
/// std::invalid_argument with the names of the communicator and the call.
struct collective_arguments {
  char const* communicator;
  unsigned rank, size;

  void all_gather(std::size_t mine, std::size_t all) const {
    require(all == mine * size, communicator, "::all_gather: 'all' must have ", mine * size, " bytes, got ", all);
  }

  void all_to_all(std::size_t mine, std::size_t all) const {
    require(mine % size == 0, communicator, "::all_to_all: 'mine' must have a multiple of ", size, " bytes, got ",
            mine);
    require(all == mine, communicator, "::all_to_all: 'all' must have ", mine, " bytes, got ", all);
  }

  void send_recv(std::size_t mine, unsigned to, std::size_t theirs, unsigned from) const {
    peer("send_recv", "to", to);
    peer("send_recv", "from", from);
    require((to == rank) == (from == rank), communicator, "::send_recv: 'to' and 'from' must both be this rank, ", rank,
            ", or neither, got ", to, " and ", from);
    require(to != rank || mine == theirs, communicator, "::send_recv: 'theirs' must have ", mine,
            " bytes in a transfer to itself, got ", theirs);
  }

  void reduce_scatter(std::size_t mine, std::size_t part) const {
    require(mine == part * size, communicator, "::reduce_scatter: 'mine' must have ", part * size, " elements, got ",
            mine);
  }

  void peer(char const* call, char const* argument, unsigned other) const {
    require(other < size, communicator, "::", call, ": '", argument, "' must be below ", size, ", got ", other);
  }
};

}}}  // namespace pith::PITH_ABI::detail
