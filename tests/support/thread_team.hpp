// tests/support/thread_team.hpp — several host threads share a block, as on a device: a race in a body shows.
#pragma once

#include <pith/core/executor.hpp>
#include <pith/exec/host_memory.hpp>

#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

namespace support {

/// One of `size` threads, which meet at a barrier after each call. Neighbours in memory belong to different threads.
struct thread_team {
  std::uint32_t rank, size;
  std::barrier<>* all;

  template <class Count, class F>
  void for_each(Count n, F const& f) const {
    for (auto i = rank; i < n; i += size) f(i);
    all->arrive_and_wait();
  }

  template <class Count, class Width, class Row>
  void for_each_in(Count n, Width width, Row const& row) const {
    for_each(n, [&](std::uint32_t i) { row(i / width)(i); });
  }

  void random(pith::draws const& from, std::uint64_t first, std::uint32_t groups, std::uint16_t* to) const {
    for_each(groups, [&](std::uint32_t j) { pith::lone_thread().random(pith::draws(from), first + j, 1, to + 8 * j); });
  }
};

static_assert(pith::team<thread_team>);

/// Blocks of the size that a device takes, each shared by a team of threads.
class team_executor : public pith::detail::host_memory {
 public:
  static constexpr std::uint32_t block_span = 2048;
  static constexpr char const* name() { return "team"; }

  explicit team_executor(std::uint32_t threads = 1) : threads_(threads) {}

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    for (std::uint64_t i = 0; i < n; ++i) f(i);
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    auto all = std::barrier<>(threads_);
    typename Body::memory fast;
    auto team = std::vector<std::jthread>();
    for (std::uint32_t rank = 0; rank < threads_; ++rank) {
      team.emplace_back([&, rank] {
        for (std::uint64_t b = 0; b < blocks; ++b) body(thread_team{rank, threads_, &all}, fast, b);
      });
    }
  }

 private:
  std::uint32_t threads_;
};

static_assert(pith::host_executor<team_executor>);

}  // namespace support
