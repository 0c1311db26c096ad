// tests/emulator/nccl/group.hpp — calls that go on together: those between ncclGroupStart and ncclGroupEnd.
#pragma once

#include "nccl/member.hpp"
#include "runtime/schedule.hpp"

#include <functional>
#include <memory>

namespace emulator::nccl {

/// f() alone in the emulator.
template <class F>
ncclResult_t entered(F const& f) {
  if (schedule::is_in_work()) return ncclInvalidUsage;
  auto const inside = schedule::of_process().enter();
  return f();
}

/// Gives the stream a call of a rank, at the end of the thread's group if there is one.
ncclResult_t issue(std::shared_ptr<member> const& of, cudaStream_t stream, arguments const& a);

/// A call of the host that waits for other ranks: is_done() says whether they came, then() is called after it. The wait
/// is at the end of the thread's group if there is one.
struct awaited {
  std::function<bool()> is_done;
  std::function<ncclResult_t()> then;
};
ncclResult_t await(awaited const& a);

}  // namespace emulator::nccl
