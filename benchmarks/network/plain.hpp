// benchmarks/network/plain.hpp — the transfers of a step by MPI alone.
#pragma once

#include "replay.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace network {

/// Repeats the recorded transfers by MPI's blocking calls, in its own memory. 16-bit floats are added as integers.
class plain_exchange {
 public:
  using call = noted_transfer::call;

  explicit plain_exchange(notes noted) : noted_(std::move(noted)) {
    for (auto const& t : noted_) {
      auto const most = std::max(t.bytes, t.received);
      mine_.resize(std::max(mine_.size(), most));
      all_.resize(std::max(all_.size(), most * static_cast<std::size_t>(ranks_of(t))));
    }
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
      case call::all_gather: MPI_Allgather(mine_.data(), n, t.type, all_.data(), n, t.type, t.among); break;
      case call::all_to_all: {
        auto const each = n / ranks_of(t);
        MPI_Alltoall(mine_.data(), each, t.type, all_.data(), each, t.type, t.among);
        break;
      }
      case call::all_reduce: MPI_Allreduce(MPI_IN_PLACE, mine_.data(), n, t.type, MPI_SUM, t.among); break;
      case call::send_recv:
        MPI_Sendrecv(mine_.data(), n, t.type, static_cast<int>(t.to), 0, all_.data(), static_cast<int>(t.received),
                     t.type, static_cast<int>(t.from), 0, t.among, MPI_STATUS_IGNORE);
        break;
    }
  }

  static int ranks_of(noted_transfer const& t) {
    auto ranks = 0;
    MPI_Comm_size(t.among, &ranks);
    return ranks;
  }

  notes noted_;
  std::vector<std::byte> mine_, all_;
};

}  // namespace network
