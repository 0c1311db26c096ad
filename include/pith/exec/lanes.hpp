// pith/exec/lanes.hpp — the work of independent tensors, whose equal kernels become one launch on a device.
#pragma once

#include <pith/core/executor.hpp>

#include <cstddef>

namespace pith { inline namespace PITH_ABI {

/// Runs lanes. A lane is the work of one tensor, as a sequence of calls of an executor:
///
///     auto lanes = pith::lanes<E>();            // once
///     auto const work = lanes.record(exec);     // in each step
///     for (std::size_t i = 0; i < n; ++i)
///       pith::compress(work.next_lane(), codec, gradients[i], payloads[i], states[i], workspaces[i]);
///     work.run();
///
/// On a host, each call runs at once. On a CUDA stream, the calls are recorded, and run() launches them. Equal
/// sequences of kernels in different lanes become one sequence of launches. So the number of launches depends on the
/// kinds of tensors, not on their number. All results are those of calls without lanes.
///
///   requires   lanes that share no memory that they write. If `are_recorded` is true, this includes workspaces. Memory
///              that a lane uses must stay valid until run() returns, and states must not be destroyed before. One
///              recording at a time, and always on the same stream. Work that goes to `exec` itself before run() runs first
///   memory     on a device, the arguments of the launches, about 200 bytes per lane and kernel, and copies of them
///              in pinned memory, one per run that the stream has not reached. A run allocates if it has more arguments
///              than the runs before it, or if the host is further ahead of the stream
///   waits      on a device, a call that downloads, uploads or waits first launches what is recorded
///   capture    a CUDA graph can capture record() to run(). `lanes` keeps the arguments of each capture in device
///              memory, and must outlive the graphs
template <executor E>
class lanes {
 public:
  /// Whether the calls run later than they are made.
  static constexpr bool are_recorded = false;

  class recording {
   public:
    explicit recording(E const& exec) : exec_(exec) {}
    /// Returns the executor for the next lane.
    E const& next_lane() const { return exec_; }
    void run() const {}

   private:
    E exec_;
  };

  recording record(E const& exec) const { return recording(exec); }
};

}}  // namespace pith::PITH_ABI
