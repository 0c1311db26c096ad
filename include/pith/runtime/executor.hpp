// pith/runtime/executor.hpp — the executor of compiled codecs: the calling thread or a pool of threads.
#pragma once

#include <memory>

namespace pith::inline v0 {

class thread_pool;

namespace runtime {

/// An executor whose type does not depend on compiler flags. All executors give bitwise equal results.
///
///   owns        the threads, together with its copies. An exchange and a compressor keep a copy
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
