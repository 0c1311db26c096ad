// pith/exec/par.hpp — an executor that uses the threads of a pool or a framework, with the same results as seq.
#pragma once

#include <pith/core/error.hpp>
#include <pith/core/executor.hpp>
#include <pith/exec/detail/host_memory.hpp>
#include <pith/exec/detail/host_team.hpp>
#include <pith/exec/parallel_runner.hpp>
#include <pith/exec/thread_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The number of tensor elements per block, which estimates the cost of a block. If the body does not declare this
/// number, returns `usual`, the executor's items_per_block.
template <class Body>
constexpr std::uint64_t elements_in_block([[maybe_unused]] Body const& body, std::uint64_t usual) {
  if constexpr (requires { body.block_elements(); }) {
    return std::max<std::uint64_t>(1, body.block_elements());
  } else if constexpr (requires { Body::items_per_block; }) {
    return Body::items_per_block;
  } else {
    return usual;
  }
}

/// Divides `total` blocks or bytes into chunks of `grain` blocks or bytes.
struct chunking {
  /// The largest number of chunks per thread. More chunks would not improve the load balance. The argument `least`, the
  /// smallest grain, must be so large that a chunk takes a few microseconds. A thread needs much less time to claim a
  /// chunk.
  static constexpr std::uint64_t max_per_thread = 64;

  std::uint64_t total, grain;

  constexpr chunking(std::uint64_t work, std::uint64_t least, unsigned threads)
      : total(work), grain(std::max(least, work / (max_per_thread * threads) + 1)) {}

  constexpr std::uint64_t count() const { return total / grain + (total % grain != 0); }
  constexpr std::uint64_t first(std::uint64_t chunk) const { return chunk * grain; }
  constexpr std::uint64_t last(std::uint64_t chunk) const { return std::min(total, first(chunk) + grain); }
};

/// Returns the number of a runner's threads, or the number of cores if the runner has no function threads().
template <class R>
unsigned threads_of(R const& runner) {
  auto const reported = reported_threads(runner);
  return reported > 0 ? reported : std::max(1u, std::thread::hardware_concurrency());
}

inline namespace PITH_ISA_NAMESPACE {

template <class Body>
struct block_chunk {
  Body const& body;
  chunking over;
  isa level;
  void operator()(std::uint64_t c) const { run_blocks(level, body, over.first(c), over.last(c)); }
};

}  // namespace PITH_ISA_NAMESPACE

struct copy_chunk {
  std::byte* to;
  std::byte const* from;
  chunking over;
  void operator()(std::uint64_t c) const {
    host_memory().copy(to + over.first(c), from + over.first(c), over.last(c) - over.first(c));
  }
};

struct fill_chunk {
  std::byte* to;
  std::byte value;
  chunking over;
  void operator()(std::uint64_t c) const {
    host_memory().fill(to + over.first(c), value, over.last(c) - over.first(c));
  }
};

}  // namespace detail

inline namespace PITH_ISA_NAMESPACE {

/// An executor that divides the work of a call among the threads of a runner. The call returns after all work is done.
/// A small amount of work runs on the calling thread. For any number of threads, results are bitwise equal to those of
/// seq with the same instruction set.
///
///   owns        no threads. The runner must outlive the executor and the executor's copies. A default-constructed
///               executor uses only the calling thread
///   throws      the exceptions of the runner and of bodies. Of several exceptions, a thread_pool throws the first. The
///               results of the call, and states that it writes, are then unspecified
///   nests       if the runner's runs may nest. While a thread_pool runs a call, the work of every other call runs on
///               the thread that made this other call
///   complexity  no call allocates
template <parallel_runner R>
class par_executor : public detail::host_memory {
 public:
  static constexpr std::uint32_t items_per_block = 512;
  static constexpr char const* name() { return "par"; }

  par_executor() = default;
  explicit par_executor(R& runner) : runner_(std::addressof(runner)), threads_(detail::threads_of(runner)) {}
  par_executor(R& runner, isa level) : par_executor(runner) { most_ = detail::runnable(level); }

  isa level() const { return std::clamp(most_, min_isa, best_isa()); }

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    using block = detail::index_block<F>;
    for_each_block(ext::blocks_for(n, block::items_per_block), block{f, n});
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    auto const elements = detail::elements_in_block(body, items_per_block);
    if (blocks < (shared_elements + elements - 1) / elements || runner_ == nullptr) {
      if (blocks > 0) detail::run_blocks(level(), body, 0, blocks);
      return;
    }
    auto const over = detail::chunking(blocks, ext::blocks_for(chunk_elements, elements), threads_);
    (*runner_)(over.count(), detail::block_chunk<Body>{body, over, level()});
  }

  /// Source and target may overlap, as in host_memory. If source and target overlap, one thread copies all bytes.
  void copy(void* to, void const* from, std::size_t bytes) const {
    auto* const first = static_cast<std::byte*>(to);
    auto const* const source = static_cast<std::byte const*>(from);
    auto const before = std::less_equal<>();
    auto const apart = before(source + bytes, first) || before(first + bytes, source);
    if (bytes < shared_bytes || runner_ == nullptr || !apart) return host_memory::copy(to, from, bytes);
    auto const over = detail::chunking(bytes, chunk_bytes, threads_);
    (*runner_)(over.count(), detail::copy_chunk{first, source, over});
  }
  void fill(void* to, std::byte value, std::size_t bytes) const {
    if (bytes < shared_bytes || runner_ == nullptr) return host_memory::fill(to, value, bytes);
    auto const over = detail::chunking(bytes, chunk_bytes, threads_);
    (*runner_)(over.count(), detail::fill_chunk{static_cast<std::byte*>(to), value, over});
  }
  void upload(void* to, void const* from, std::size_t bytes) const { copy(to, from, bytes); }
  void download(void* to, void const* from, std::size_t bytes) const { copy(to, from, bytes); }

 private:
  /// Work of fewer than `shared_elements` elements or `shared_bytes` bytes runs on the calling thread, since such work
  /// ends before a sleeping thread would wake.
  static constexpr std::uint64_t shared_elements = std::uint64_t{1} << 16, chunk_elements = std::uint64_t{1} << 14;
  static constexpr std::size_t shared_bytes = std::size_t{1} << 20, chunk_bytes = std::size_t{1} << 18;

  R* runner_ = nullptr;
  unsigned threads_ = 1;
  isa most_ = isa::avx512;
};

static_assert(executor<par_executor<thread_pool>>);

/// Returns an executor for a runner that the caller owns, such as a thread_pool or an adaptor for a framework's
/// threads. Loops use the instruction set `level`, or the one that the compiler flags enable if this one is larger. By
/// default, `level` is best_isa().
template <parallel_runner R>
par_executor<R> par(R& runner) {
  return par_executor<R>(runner);
}
template <parallel_runner R>
par_executor<R> par(R& runner, isa level) {
  return par_executor<R>(runner, level);
}

}  // namespace PITH_ISA_NAMESPACE

namespace detail {

/// Returns a pool that is created on first use. The pool is never destroyed, because a forked child process that exits
/// must not destroy a pool.
inline thread_pool& common_pool() {
  static auto* const pool = new thread_pool();
  return *pool;
}

}  // namespace detail

inline namespace PITH_ISA_NAMESPACE {

/// An executor that uses a process-wide pool with one thread per core.
inline par_executor<thread_pool> par() { return par(detail::common_pool()); }

}  // namespace PITH_ISA_NAMESPACE
}}  // namespace pith::PITH_ABI
