// pith/comm/arguments.hpp — what the arguments of a collective must fulfil, whatever the communicator.
#pragma once

#include <pith/core/error.hpp>
#include <pith/core/span.hpp>

#include <cstddef>
#include <numeric>

namespace pith::inline v0::detail {

/// Throws std::invalid_argument, which names the communicator and the call, where this rank's arguments do not fit.
/// Sizes are those of its spans.
struct collective_arguments {
  char const* communicator;
  unsigned rank, size;

  void all_gather(std::size_t mine, std::size_t all) const {
    require(all == mine * size, communicator, ": all_gather needs room for ", mine * size, " bytes, got ", all);
  }

  void all_gather_v(std::size_t mine, std::size_t all, span<std::size_t const> sizes) const {
    pieces("all_gather_v", "all", all, sizes);
    require(mine == sizes[rank], communicator, ": all_gather_v gives rank ", rank, " ", sizes[rank], " bytes, got ",
            mine);
  }

  void all_to_all(std::size_t mine, std::size_t all) const {
    require(all == mine && mine % size == 0, communicator, ": all_to_all needs room for ", mine, " bytes in ", size,
            " equal pieces, got ", all);
  }

  void all_to_all_v(std::size_t mine, span<std::size_t const> sizes_to, std::size_t all,
                    span<std::size_t const> sizes_from) const {
    pieces("all_to_all_v", "mine", mine, sizes_to);
    pieces("all_to_all_v", "all", all, sizes_from);
    require(sizes_to[rank] == sizes_from[rank], communicator, ": all_to_all_v sends ", sizes_to[rank],
            " bytes from rank ", rank, " to itself and expects ", sizes_from[rank]);
  }

  void send_recv(std::size_t mine, unsigned to, std::size_t theirs, unsigned from) const {
    peer("send_recv", to);
    peer("send_recv", from);
    require((to == rank) == (from == rank) && (to != rank || mine == theirs), communicator, ": send_recv of rank ",
            rank, " sends ", mine, " bytes to ", to, " and expects ", theirs, " from ", from,
            ": what goes to itself must come from itself");
  }

  void reduce_scatter(std::size_t mine, std::size_t part) const {
    require(mine == part * size, communicator, ": reduce_scatter takes ", part * size, " elements for a part of ", part,
            ", got ", mine);
  }

  void peer(char const* call, unsigned other) const {
    require(other < size, communicator, ": ", call, " has ranks below ", size, ", got ", other);
  }

 private:
  void pieces(char const* call, char const* buffer, std::size_t bytes, span<std::size_t const> sizes) const {
    require(sizes.size() == size, communicator, ": ", call, " needs a size for each of ", size, " ranks, got ",
            sizes.size());
    auto const total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    require(bytes == total, communicator, ": ", call, " needs ", total, " bytes in '", buffer, "', got ", bytes);
  }
};

}  // namespace pith::inline v0::detail
