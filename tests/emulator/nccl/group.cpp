// tests/emulator/nccl/group.cpp — calls that go on together: those between ncclGroupStart and ncclGroupEnd.
#include "nccl/group.hpp"

#include "nccl/error.hpp"
#include "runtime/submit.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace emulator::nccl {

namespace {

/// Calls of a rank in one stream, as a piece of its work: done when all of them are.
class joint_calls {
 public:
  joint_calls(std::shared_ptr<member> of, cudaStream_t stream) : of_(std::move(of)), stream_(stream) {}

  bool is_of(member const& m, cudaStream_t stream) const { return of_.get() == &m && stream_ == stream; }
  cudaStream_t stream() const { return stream_; }
  void add(arguments const& a) { calls_.push_back(a); }

  /// A stream goes on when its communicator is aborted.
  bool operator()() {
    if (of_->is_aborted) return true;
    if (posted_.empty()) {
      for (auto const& a : calls_) posted_.push_back(of_->all->post(of_->rank, a));
    }
    return std::ranges::all_of(posted_, [](posted const& p) { return p->is_done; });
  }

 private:
  std::shared_ptr<member> of_;
  cudaStream_t stream_;
  std::vector<arguments> calls_;
  std::vector<posted> posted_;
};

ncclResult_t start(std::vector<joint_calls> const& all) {
  for (auto const& joint : all) {
    if (submit(joint.stream(), joint) != cudaSuccess) return report(ncclUnhandledCudaError, "the device had a fault");
  }
  return ncclSuccess;
}

ncclResult_t finish(awaited const& a) {
  schedule::of_process().wake_others();
  schedule::of_process().wait_until(a.is_done);
  return a.then();
}

struct group {
  int depth = 0;
  std::vector<joint_calls> calls;
  std::vector<awaited> waits;

  ncclResult_t end() {
    auto result = start(std::exchange(calls, {}));
    for (auto const& a : std::exchange(waits, {})) {
      auto const next = finish(a);
      if (result == ncclSuccess) result = next;
    }
    return result;
  }
};
thread_local group current;

}  // namespace

ncclResult_t issue(std::shared_ptr<member> const& of, cudaStream_t stream, arguments const& a) {
  auto joint = std::ranges::find_if(current.calls, [&](auto const& c) { return c.is_of(*of, stream); });
  if (joint == current.calls.end()) joint = current.calls.insert(joint, joint_calls(of, stream));
  joint->add(a);
  return current.depth > 0 ? ncclSuccess : current.end();
}

ncclResult_t await(awaited const& a) {
  current.waits.push_back(a);
  return current.depth > 0 ? ncclSuccess : current.end();
}

}  // namespace emulator::nccl

using namespace emulator::nccl;

ncclResult_t ncclGroupStart() {
  ++current.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (current.depth == 0) return report(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return --current.depth > 0 ? ncclSuccess : entered([] { return current.end(); });
}
