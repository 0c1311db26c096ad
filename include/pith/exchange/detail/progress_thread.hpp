// pith/exchange/detail/progress_thread.hpp — a thread that runs one job per step concurrently with its caller.
#pragma once

#include <pith/config.hpp>

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A thread that runs one job at a time. start(job) runs the job on the thread, and returns at once. `join()` waits for
/// the job and rethrows the job's exception. The thread sleeps between jobs. The destructor waits for the job, so every
/// job must end.
class progress_thread {
 public:
  progress_thread() : thread_([this] { work(); }) {}
  progress_thread(progress_thread const&) = delete;
  progress_thread& operator=(progress_thread const&) = delete;
  ~progress_thread() {
    {
      auto const lock = std::lock_guard(mutex_);
      is_stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  void start(std::function<void()> job) {
    auto const lock = std::lock_guard(mutex_);
    job_ = std::move(job);
    changed_.notify_all();
  }
  void join() {
    auto lock = std::unique_lock(mutex_);
    changed_.wait(lock, [this] { return !job_; });
    if (auto const error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  }

 private:
  void work() {
    auto lock = std::unique_lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return job_ || is_stopping_; });
      if (!job_) return;
      lock.unlock();
      auto error = std::exception_ptr();
      try {
        job_();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = std::move(error);
      job_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  std::exception_ptr error_;
  bool is_stopping_ = false;
  std::thread thread_;  // declared last, since the thread uses the other members
};

}}}  // namespace pith::PITH_ABI::detail
