// tests/emulator/runtime/schedule.hpp — all streams of the process: who goes on, on whose thread, and who waits.
#pragma once

#include "runtime/stream.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

namespace emulator {

/// Which stream goes on where several can.
enum class turn { oldest, newest, drawn };

/// No thread runs streams by itself. Work runs on the thread that gives it, as far as it can; a late schedule runs it
/// on a thread that waits for something. One thread at a time is inside the emulator: it holds the mutex.
class schedule {
 public:
  static schedule& of_process();

  std::unique_lock<std::mutex> enter() { return std::unique_lock(mutex_); }
  /// Whether this thread is inside of a piece of work, which must not call the runtime.
  static bool is_in_work();

  CUstream_st& add(int device, bool is_blocking);
  /// The stream ends when its work is done.
  void destroy(CUstream_st& stream);
  std::vector<CUstream_st*> streams() const;
  std::vector<CUstream_st*> streams_of(int device) const;

  void give(CUstream_st& stream, work piece);
  /// Work of some stream, if any can go on; whether something changed.
  bool step();
  /// A piece of work that is not done has changed what another one waits for.
  void stir() { is_stirred_ = true; }

  /// Runs work until is_true(), and sleeps while none can go on.
  template <class F>
  void wait_until(F const& is_true) {
    while (!is_true()) {
      if (!step()) sleep();
    }
  }
  void wake_others() { changed_.notify_all(); }

  void take_turns(turn how, unsigned seed);
  void set_late(bool is_late) { is_late_ = is_late; }
  /// 0, 1, ... n - 1 in the order in which they are to go on.
  std::vector<std::size_t> in_turn(std::size_t n);

 private:
  void forget_ended();
  void sleep();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<CUstream_st>> streams_;
  turn turn_ = turn::oldest;
  std::mt19937 random_;
  bool is_late_ = false, is_stirred_ = false;
};

}  // namespace emulator
