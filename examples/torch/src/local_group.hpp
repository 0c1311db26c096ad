// local_group.hpp — the communicators of ranks that share one process.
#pragma once

#include <pith/comm/any_communicator.hpp>
#include <pith/runtime/run_ranks.hpp>

#include <latch>
#include <thread>
#include <vector>

namespace pith_torch {

/// Communicators for `size` ranks inside one process. The threads of run_ranks only keep the communicators alive, so that
/// any thread can call a rank's communicator, one thread at a time.
///
///   requires    all exchanges on the communicators are destroyed before this object
///   errors      pith::communication_error if the ranks make different calls
class local_group {
 public:
  explicit local_group(unsigned size) : communicators_(size), begun_(size), ended_(1) {
    host_ = std::jthread([this, size] {
      pith::runtime::run_ranks(size, [this](pith::any_communicator& comm) {
        communicators_[comm.rank()] = &comm;
        begun_.count_down();
        ended_.wait();
      });
    });
    begun_.wait();
  }
  local_group(local_group&&) = delete;
  ~local_group() { ended_.count_down(); }

  pith::any_communicator& communicator(unsigned rank) { return *communicators_.at(rank); }

 private:
  std::vector<pith::any_communicator*> communicators_;
  std::latch begun_, ended_;
  std::jthread host_;
};

}  // namespace pith_torch
