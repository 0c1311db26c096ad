// pith/exchange/detail/exchange_engine.hpp — the execution of an exchange's steps, on a thread where possible.
#pragma once

#include <pith/comm/detail/lent.hpp>
#include <pith/comm/detail/progress_thread.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/buckets.hpp>
#include <pith/exchange/detail/exchange_pipeline.hpp>
#include <pith/exchange/exchange_options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace pith::inline v0::detail {

/// Its address is fixed, even if the exchange is moved.
template <real In, executor E, class Comm>
struct exchange_engine {
  exchange_pipeline<In, E, Comm> pipeline;
  ready_buckets ready;

  template <class Policy>
  exchange_engine(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                  exchange_options const& o)
      : pipeline(exec, comm,
                 {exec, std::move(tensors), policy, o.seed, static_cast<std::uint16_t>(comm.rank()), comm.size()}, o),
        ready(pipeline.layout(), pipeline.model().specs().size()) {}
  exchange_engine(exchange_engine const&) = delete;
  exchange_engine& operator=(exchange_engine const&) = delete;

  /// The gradient of a tensor is ready. On a host the first call of a step starts the thread; on a device each call
  /// enqueues the rounds that are possible now.
  void add(std::size_t tensor) {
    ready.add(tensor);
    if constexpr (host_executor<E>) {
      if (!is_running_) start();
    } else {
      guarded([this] { run(); });
    }
  }
  /// All gradients are ready; returns when the step is done.
  void finish() {
    ready.add_rest();
    guarded([this] { is_running_ ? join() : run(); });
  }
  /// No further gradients will be ready; returns when the thread is idle.
  void cancel() {
    ready.cancel();
    guarded([this] { join(); });
  }
  void lay_out(bucket_list layout) {
    pipeline.lay_out(std::move(layout));
    pipeline.connect();
    ready.lay_out(pipeline.layout());
  }

  /// Deleter that keeps the engine's memory if a failed step lent it to the transport.
  struct end {
    void operator()(exchange_engine* e) const {
      e->ready.cancel();
      e->thread_.reset();
      auto owned = std::unique_ptr<exchange_engine>(e);
      e->pipeline.drain();
      if (e->pipeline.is_lent()) keep(owned.release());
    }
  };

 private:
  /// Runs the rounds whose gradients are ready.
  void run() {
    pipeline.advance(ready, [this](std::size_t bucket) { return ready.has(bucket); });
  }
  /// Runs all rounds on the thread, which waits for gradients.
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

  bool is_running_ = false;                ///< the thread runs this step
  std::optional<progress_thread> thread_;  // last: it uses the other members
};

}  // namespace pith::inline v0::detail
