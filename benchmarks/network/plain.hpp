// benchmarks/network/plain.hpp — the transfers of a step by MPI alone.
#pragma once

#include "replay.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace network {

/// Does again what was noted, in MPI's blocking calls on memory of its own. 16-bit floats are added as integers.
class plain_exchange {
 public:
  using call = noted_transfer::call;

  plain_exchange(notes noted, int ranks) : noted_(std::move(noted)), ranks_(ranks) {
    std::size_t most = 0;
    for (auto const& t : noted_) most = std::max({most, t.bytes, t.received});
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
        MPI_Sendrecv(mine_.data(), n, t.type, static_cast<int>(t.to), 0, all_.data(), static_cast<int>(t.received),
                     t.type, static_cast<int>(t.from), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    }
  }

  notes noted_;
  int ranks_;
  std::vector<std::byte> mine_, all_;
};

}  // namespace network
