// pith/exchange/detail/exchange_engine.hpp — the execution of an exchange's steps, on a separate thread where possible.
#pragma once

#include <pith/comm/detail/lent.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/buckets.hpp>
#include <pith/exchange/detail/exchange_pipeline.hpp>
#include <pith/exchange/exchange_options.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

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

/// The members of an exchange whose addresses do not change if the exchange is moved.
template <real In, executor E, class Comm>
struct exchange_engine {
  exchange_pipeline<In, E, Comm> pipeline;
  ready_buckets ready;

  template <class Policy>
  exchange_engine(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                  exchange_options const& o)
      : pipeline(exec, comm,
                 {exec, std::move(tensors), policy, o, static_cast<std::uint16_t>(comm.rank()), comm.size()}, o),
        ready(pipeline.layout(), pipeline.model().specs().size()) {}
  exchange_engine(exchange_engine const&) = delete;
  exchange_engine& operator=(exchange_engine const&) = delete;

  /// Throws std::invalid_argument if the communicator must not be called from the engine's thread.
  void require_thread() {
    if constexpr (host_executor<E> && has_thread_check<Comm>) pipeline.comm().require_thread_support();
  }
  /// Marks the gradient of a tensor as ready. On a host, the first call in a step starts the engine's thread. On a
  /// device, each call enqueues all rounds whose gradients are ready.
  void add(std::size_t tensor) {
    ready.add(tensor);
    if constexpr (host_executor<E>) {
      if (!is_running_) start();
    } else {
      guarded([this] { run(); });
    }
  }
  /// Marks all gradients as ready; returns when the step is complete.
  void finish() {
    ready.add_rest();
    guarded([this] { is_running_ ? join() : run(); });
  }
  /// Ends a step in which no further gradients will become ready; returns when the engine's thread is idle.
  void cancel() {
    ready.cancel();
    guarded([this] { join(); });
  }
  void set_layout(bucket_list layout) {
    pipeline.set_layout(std::move(layout));
    pipeline.connect();
    ready.set_layout(pipeline.layout());
  }
  /// Plans again if a plan has thrown, for example for lack of memory.
  void complete_plan() {
    if (pipeline.is_planned()) return;
    pipeline.plan();
    pipeline.connect();
    ready.set_layout(pipeline.layout());
  }

  /// Deletes an engine. After a failed step, the engine's memory is not freed, since the transport may still use this
  /// memory.
  struct end {
    void operator()(exchange_engine* e) const {
      try {
        e->cancel();
      } catch (...) {  // the step has failed, and the pipeline is abandoned
      }
      e->thread_.reset();
      auto owned = std::unique_ptr<exchange_engine>(e);
      e->pipeline.drain();
      if (e->pipeline.is_lent()) keep(owned.release());
    }
  };

 private:
  /// Runs all rounds whose gradients are ready, in the caller's thread.
  void run() {
    pipeline.advance(ready, [this](std::size_t bucket) { return ready.has(bucket); });
  }
  /// Starts the engine's thread, which waits for each bucket's gradients and runs all rounds.
  void start() {
    if (!thread_) thread_.emplace();
    thread_->start([this] { pipeline.advance(ready, [this](std::size_t bucket) { return ready.wait_for(bucket); }); });
    is_running_ = true;
  }
  void join() {
    if (std::exchange(is_running_, false)) thread_->join();
  }
  template <class F>
  void guarded(F const& f) {
    try {
      f();
    } catch (...) {
      pipeline.abandon();
      throw;
    }
  }

  bool is_running_ = false;                ///< the engine's thread runs the current step
  std::optional<progress_thread> thread_;  // declared last, since the thread uses the other members
};

}}}  // namespace pith::PITH_ABI::detail
