// tests/emulator/runtime/stream.hpp — a stream: pieces of work in their order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>

namespace emulator {

/// Called until it returns true: it is done then. A graph copies it for each replay, in the state of its capture.
using work = std::function<bool()>;

/// Work that is done when it has been called once.
template <class F>
work once(F f) {
  return [f = std::move(f)]() mutable {
    f();
    return true;
  };
}

/// How many pieces of work a stream was given, and how many of them are done.
struct progress {
  std::uint64_t given = 0, done = 0;
};

/// A place in the order of a stream: the end of all that it had been given.
struct place {
  std::shared_ptr<progress const> stream = {};
  std::uint64_t count = 0;

  bool is_reached() const { return !stream || stream->done >= count; }
};

struct capture;

}  // namespace emulator

struct CUstream_st {
  CUstream_st(int of_device, bool waits_for_legacy) : device(of_device), is_blocking(waits_for_legacy) {}
  CUstream_st(CUstream_st const&) = delete;
  CUstream_st& operator=(CUstream_st const&) = delete;

  void give(emulator::work piece) {
    pieces_.push_back(std::move(piece));
    ++progress_->given;
  }
  /// Calls the first piece. Whether it is done.
  bool go_on();
  bool is_idle() const { return pieces_.empty(); }
  emulator::place end() const { return {progress_, progress_->given}; }

  int const device;
  bool const is_blocking;  ///< in an order with the legacy default stream
  bool is_destroyed = false;
  std::shared_ptr<emulator::capture> captured = {};
  std::set<std::size_t> last_nodes = {};  ///< of the graph: what the next node follows

 private:
  std::deque<emulator::work> pieces_;
  std::shared_ptr<emulator::progress> progress_ = std::make_shared<emulator::progress>();
};
