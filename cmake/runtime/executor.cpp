// cmake/runtime/executor.cpp — compiles the thread pool, and run_ranks.
#include <pith/comm/threads.hpp>
#include <pith/exec/thread_pool.hpp>
#include <pith/runtime/executor.hpp>
#include <pith/runtime/run_ranks.hpp>

#include <functional>
#include <memory>

namespace pith { inline namespace PITH_ABI { namespace runtime {

namespace {

struct pooled {
  explicit pooled(unsigned threads) : pool(threads), runner(pool) {}
  thread_pool pool;
  any_runner runner;
};

}  // namespace

executor::executor(unsigned threads) {
  auto const made = std::make_shared<pooled>(threads);
  runner_ = {made, &made->runner};
}

void run_ranks(unsigned ranks, std::function<void(any_communicator&)> const& f, timeout_duration timeout) {
  auto const run = [&f](thread_communicator comm) {
    auto erased = any_communicator(comm);
    f(erased);
  };
  pith::run_ranks(ranks, run, {.timeout = timeout});
}

}}}  // namespace pith::PITH_ABI::runtime
