// tests/support/queued_nccl.hpp — NCCL's communicators as those of threads, on queued streams; needs
// support/queued_nccl.cpp in place of NCCL.
#pragma once

#include <pith/comm/threads.hpp>
#include <pith/exec/seq.hpp>

#include <nccl.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace support {

/// Messages from one rank to another that are not received yet.
class mailbox {
 public:
  void put(std::vector<std::byte> letter) {
    auto const lock = std::lock_guard(mutex_);
    letters_.push_back(std::move(letter));
    came_.notify_one();
  }
  std::vector<std::byte> take() {
    auto lock = std::unique_lock(mutex_);
    came_.wait(lock, [&] { return !letters_.empty(); });
    auto letter = std::move(letters_.front());
    letters_.pop_front();
    return letter;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::vector<std::byte>> letters_;
};

using mailboxes = std::shared_ptr<std::vector<mailbox>>;

}  // namespace support

/// The endpoint of a rank; all ranks construct theirs together.
struct ncclComm {
  explicit ncclComm(pith::thread_communicator of) : ranks(of), boxes(ranks.size()) {
    auto own = std::make_shared<std::vector<support::mailbox>>(ranks.size());
    auto const* shown = &own;
    auto all = std::vector<support::mailboxes const*>(ranks.size());
    ranks.all_gather(pith::seq, bytes_of(&shown, 1), bytes_of(all.data(), all.size()));
    for (unsigned r = 0; r < ranks.size(); ++r) boxes[r] = *all[r];
    ranks.all_gather(pith::seq, {}, {});  // all ranks have read it
  }

  /// The messages from one rank to another.
  support::mailbox& box(unsigned from, unsigned to) { return (*boxes[to])[from]; }

  pith::thread_communicator ranks;
  ncclResult_t error = ncclSuccess;

 private:
  template <class T>
  static pith::span<std::byte> bytes_of(T* x, std::size_t n) {
    return {reinterpret_cast<std::byte*>(x), n * sizeof(T)};
  }

  std::vector<support::mailboxes> boxes;
};
