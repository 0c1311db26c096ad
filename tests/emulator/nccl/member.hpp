// tests/emulator/nccl/member.hpp — the ranks of a communicator, and the calls in which they meet.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace emulator::nccl {

enum class operation { all_reduce, all_gather, reduce_scatter, broadcast, send, receive };

/// What a rank passed to a call.
struct arguments {
  operation what;
  void const* from;
  void* to;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction = ncclSum;
  int peer = 0;  ///< or the root
};

/// A call of a rank that its stream has reached.
struct posted_call {
  arguments of;
  bool is_done = false;
};
using posted = std::shared_ptr<posted_call>;

/// All ranks of a communicator. The n-th collective calls of all ranks meet, in the order in which their streams reach
/// them; a send meets the receive of its peer.
class clique {
 public:
  explicit clique(unsigned ranks) : members_(ranks) {}

  unsigned size() const { return static_cast<unsigned>(members_.size()); }
  bool is_complete() const;
  bool has(unsigned rank) const { return !members_[rank].expired(); }
  /// Returns why the rank cannot join, or nothing.
  std::string join(std::shared_ptr<struct member> const& m);
  /// Its calls do not meet those of others any more.
  void leave(unsigned rank) { members_[rank].reset(); }

  posted post(unsigned rank, arguments const& a);

  /// What a rank of a split says, and what it becomes.
  struct part {
    int color, key;
    std::shared_ptr<struct member> made = {};
    bool is_made = false;
  };
  std::shared_ptr<part> split(unsigned rank, int color, int key);

 private:
  using calls_by_rank = std::map<unsigned, posted>;

  posted post_collective(unsigned rank, arguments const& a);
  posted post_to_peer(unsigned rank, arguments const& a);
  void finish(calls_by_rank const& all);
  void finish(posted const& sent, posted const& received, unsigned from, unsigned to);
  void fail(std::string const& why);
  void make_parts(std::vector<std::shared_ptr<part>> const& all);

  std::vector<std::weak_ptr<struct member>> members_;  // of their handles and their calls; nothing before a rank joins
  std::map<std::uint64_t, calls_by_rank> meetings_;
  std::map<std::pair<unsigned, unsigned>, std::deque<posted>> sends_, receives_;  // by from and to
  std::map<std::uint64_t, std::map<unsigned, std::shared_ptr<part>>> splits_;
};

/// A rank's end of a communicator.
struct member {
  std::shared_ptr<clique> all;
  unsigned rank;
  int device;
  bool is_aborted = false;
  ncclResult_t error = ncclSuccess;           ///< of calls that had returned
  std::uint64_t collectives = 0, splits = 0;  ///< how many there were
};

}  // namespace emulator::nccl

/// What a program holds.
struct ncclComm {
  std::shared_ptr<emulator::nccl::member> of;
};
