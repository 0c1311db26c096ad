// pith/exchange/detail/exchange_engine.hpp — a step of an exchange as it runs: rounds, gradients that are ready, and a thread.
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

/// At one address, however often the exchange moves.
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

  /// The gradient of a tensor is ready: on a host a thread does what can be done by now, on a device this one.
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
  /// No more gradients will be ready; returns when the thread is idle.
  void cancel() {
    ready.cancel();
    guarded([this] { join(); });
  }
  void lay_out(bucket_list layout) {
    pipeline.lay_out(std::move(layout));
    pipeline.connect();
    ready.lay_out(pipeline.layout());
  }

  /// What a step that failed lent to the transport stays.
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
  /// As far as gradients are there.
  void run() {
    pipeline.advance(ready, [this](std::size_t bucket) { return ready.has(bucket); });
  }
  /// To the end, on a thread of its own.
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

  bool is_running_ = false;                ///< the thread, in this step
  std::optional<progress_thread> thread_;  // last: it uses the others
};

}  // namespace pith::inline v0::detail
