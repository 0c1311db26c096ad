// pith/runtime/executor.hpp — the executor of compiled codecs: the calling thread or a pool of threads.
#pragma once

#include <memory>

namespace pith::inline v0 {

class thread_pool;

namespace runtime {

/// An executor whose type does not depend on compiler flags. All executors give bitwise equal results.
///
///   owns        a pool of threads, which copies share. The last copy ends the threads. An exchange and a compressor
///               keep a copy
///   requires    after fork, the child process must neither use nor destroy an executor with threads
class executor {
 public:
  /// Uses the calling thread.
  executor() = default;
  /// Uses `threads` threads, including the caller; 0 means one thread per core.
  explicit executor(unsigned threads);

  std::shared_ptr<thread_pool> const& pool() const { return pool_; }

 private:
  std::shared_ptr<thread_pool> pool_;
};

}  // namespace runtime
}  // namespace pith::inline v0
