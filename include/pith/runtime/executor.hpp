// pith/runtime/executor.hpp — the executor of compiled codecs: the calling thread, a pool of threads or a runner.
#pragma once

#include <pith/exec/parallel_runner.hpp>

#include <memory>

namespace pith { inline namespace PITH_ABI { namespace runtime {

/// An executor whose type does not depend on compiler flags. All executors give bitwise equal results.
///
///   owns        a pool of threads, which copies share. The destructor of the last copy ends the threads. An exchange
///               and a compressor keep a copy of their executor. A runner must outlive all copies
///   requires    after fork, the child process must neither use nor destroy an executor with threads
class executor {
 public:
  /// Uses the calling thread.
  executor() = default;
  /// Uses `threads` threads, including the caller; 0 means one thread per core.
  explicit executor(unsigned threads);
  /// Uses the threads of a runner, for example those of a training engine's pool.
  template <parallel_runner R>
  explicit executor(R& runner) : runner_(std::make_shared<any_runner>(runner)) {}

  std::shared_ptr<any_runner> const& runner() const { return runner_; }

 private:
  std::shared_ptr<any_runner> runner_;
};

}}}  // namespace pith::PITH_ABI::runtime
