// tests/support/queued_cuda.hpp — streams and events of the CUDA runtime as queues on the host, which run as late
// and as out of order as CUDA permits; needs support/queued_cuda.cpp in place of the runtime.
#pragma once

#include <pith/core/executor.hpp>
#include <pith/exec/seq.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <utility>
#include <vector>

/// The work of a stream, in order. Each piece may wait for a position in another stream.
struct CUstream_st {
  struct piece {
    std::function<void()> work;
    std::shared_ptr<std::size_t const> other = {};
    std::size_t least = 0;
  };

  CUstream_st();
  CUstream_st(CUstream_st const&) = delete;
  CUstream_st& operator=(CUstream_st const&) = delete;
  ~CUstream_st();

  void give(piece p) {
    queue.push_back(std::move(p));
    ++given;
  }
  bool is_idle() const { return queue.empty(); }
  bool can_go_on() const {
    return !queue.empty() && (!queue.front().other || *queue.front().other >= queue.front().least);
  }
  void go_on() {
    auto const p = std::move(queue.front());
    queue.pop_front();
    if (p.work) p.work();
    ++*done;
  }

  std::deque<piece> queue;
  std::size_t given = 0;
  std::shared_ptr<std::size_t> done = std::make_shared<std::size_t>(0);
};

/// The position of a stream at the time of the record; empty before.
struct CUevent_st {
  std::shared_ptr<std::size_t const> stream = {};
  std::size_t given = 0;
};

namespace support {

/// Which of several ready streams runs next: the oldest, the newest, or a random one.
enum class turn { first, last, drawn };

/// The streams of a thread. Work runs only when the host waits for it.
class queued_device {
 public:
  static queued_device& current() {
    static thread_local auto device = queued_device();
    return device;
  }

  void take_turns(turn how, unsigned seed) {
    turn_ = how;
    random_.seed(seed);
  }
  void add(CUstream_st& stream) { streams_.push_back(&stream); }
  void remove(CUstream_st& stream) { std::erase(streams_, &stream); }

  /// Runs one piece of work of one stream, if one is ready.
  bool go_on() {
    auto able = std::vector<CUstream_st*>();
    for (auto* const s : streams_) {
      if (s->can_go_on()) able.push_back(s);
    }
    if (able.empty()) return false;
    able[turn_ == turn::first ? 0 : turn_ == turn::last ? able.size() - 1 : random_() % able.size()]->go_on();
    return true;
  }
  /// The host waits for all work of a stream.
  void finish(CUstream_st const& stream) {
    ++waits_;
    while (!stream.is_idle() && go_on()) {
    }
  }
  void finish_all() {
    while (go_on()) {
    }
  }
  std::size_t streams() const { return streams_.size(); }
  /// The number of waits of the host.
  long waits() const { return waits_; }

 private:
  std::vector<CUstream_st*> streams_;
  turn turn_ = turn::first;
  std::mt19937 random_;
  long waits_ = 0;
};

/// `seq` on such a stream, in memory that the host must not access.
class queued_executor {
 public:
  using space = pith::device_space;
  static constexpr std::uint32_t items_per_block = 1024;
  static constexpr char const* name() { return "queued"; }

  queued_executor() = default;
  explicit queued_executor(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream() const { return stream_; }

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    give([n, f] { pith::seq.for_each_index(n, f); });
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    give([blocks, body] { pith::seq.for_each_block(blocks, body); });
  }

  void copy(void* to, void const* from, std::size_t bytes) const {
    give([=] { pith::seq.copy(to, from, bytes); });
  }
  void fill(void* to, std::byte value, std::size_t bytes) const {
    give([=] { pith::seq.fill(to, value, bytes); });
  }
  void upload(void* to, void const* from, std::size_t bytes) const {
    auto const* const first = static_cast<std::byte const*>(from);
    give([to, read = std::vector<std::byte>(first, first + bytes)] { pith::seq.copy(to, read.data(), read.size()); });
  }
  void download(void* to, void const* from, std::size_t bytes) const {
    wait();
    pith::seq.copy(to, from, bytes);
  }
  void wait() const { queued_device::current().finish(*stream_); }
  static constexpr int device_number() { return 0; }
  static constexpr bool is_capturing() { return false; }

  void* allocate(std::size_t bytes) const { return pith::seq.allocate(bytes); }
  void deallocate(void* memory, std::size_t bytes) const noexcept {
    queued_device::current().finish_all();
    pith::seq.deallocate(memory, bytes);
  }

 private:
  template <class Work>
  void give(Work work) const {
    stream_->give({std::move(work)});
  }

  cudaStream_t stream_ = nullptr;
};

static_assert(pith::executor<queued_executor> && !pith::detail::host_executor<queued_executor>);

}  // namespace support

inline CUstream_st::CUstream_st() { support::queued_device::current().add(*this); }
/// The work completes, as in CUDA; here at once.
inline CUstream_st::~CUstream_st() {
  support::queued_device::current().finish(*this);
  support::queued_device::current().remove(*this);
}
