// tests/support/thread_team.hpp — several host threads share a block, as on a device, to expose races in a body.
#pragma once

#include <pith/core/detail/summation.hpp>
#include <pith/core/executor.hpp>
#include <pith/exec/detail/host_memory.hpp>

#include <atomic>
#include <barrier>
#include <concepts>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

namespace support {

/// The state that a team shares in addition to the block's memory.
struct team_shared {
  explicit team_shared(std::uint32_t threads) : all(threads), totals(threads) {}

  std::barrier<> all;
  std::vector<std::uint32_t> totals;
  bool last = false;
};

/// One of `size` threads, with a barrier after each call. Neighbours in memory belong to different threads.
struct thread_team {
  static constexpr bool specializes = false;
  static constexpr bool by_octets = true;

  thread_team(std::uint32_t own, std::uint32_t threads, team_shared* with) : rank(own), size(threads), shared(with) {}

  template <class Count, class F>
  void for_each(Count n, F const& f) const {
    for (auto i = rank; i < n; i += size) f(i);
    meet();
  }

  template <class Count, class Width, class Row>
  void for_each_in(Count n, Width width, Row const& row) const {
    for_each(n, [&](std::uint32_t i) { row(i / width)(i); });
  }

  /// Whole octets are vector-aligned or not; the rest of the last one is read element by element.
  template <class Count, class F>
  void for_each_run(Count n, bool well, F const& f) const {
    using pith::detail::octet;
    for_each(static_cast<std::uint32_t>(pith::detail::octets(n)), [&](std::uint32_t g) {
      auto const count = static_cast<std::uint32_t>(pith::detail::octet_size(g, n));
      auto const i = g * static_cast<std::uint32_t>(octet);
      if (well && count == octet) {
        f(i, pith::detail::aligned_octet());
      } else {
        f(i, pith::detail::loose_octet{count});
      }
    });
  }

  template <class T, std::uint32_t Width, class F, class Merge>
  void merge_rows(T* lanes, std::uint32_t stride, std::uint32_t rows, pith::detail::constant<Width> width, F const& f,
                  Merge const& merge) const {
    for_each(rows,
             [&](std::uint32_t r) { lanes[stride * r] = pith::detail::merge_row<T>(width, f, r * width, merge); });
  }

  template <class Draws>
  void random(Draws const& from, std::uint64_t first, std::uint32_t octets, std::uint16_t* to) const {
    for_each(octets, [&](std::uint32_t j) { pith::serial_team().random(Draws(from), first + j, 1, to + 8 * j); });
  }

  template <class Count, class Keep>
  std::uint32_t count(Count n, Keep const& keep) const {
    return compact(n, keep, [](std::uint32_t, std::uint32_t) {});
  }

  /// One element per thread at a time; the position of each thread follows those of earlier threads.
  template <class Count, class Keep, class Emit>
  std::uint32_t compact(Count n, Keep const& keep, Emit const& emit) const {
    std::uint32_t kept = 0;
    for (std::uint32_t first = 0; first < n; first += size) {
      auto const i = first + rank;
      auto const holds = i < n && keep(i);
      shared->totals[rank] = holds ? 1 : 0;
      meet();
      auto const place = std::accumulate(shared->totals.begin(), shared->totals.begin() + rank, kept);
      kept = std::accumulate(shared->totals.begin(), shared->totals.end(), kept);
      if (holds) emit(i, place);
      meet();
    }
    return kept;
  }

  template <std::floating_point A, class Count>
  void pack_signs(A const* x, Count n, std::uint8_t* bytes) const {
    for_each_run(n, pith::detail::is_vector_aligned(x), [=](std::uint32_t i, auto const& run) {
      bytes[i / pith::detail::octet] = pith::detail::negative_byte(run.read(x + i), run.count());
    });
  }

  template <std::floating_point A, class Count>
  std::uint32_t filter_magnitude(A const* x, Count n, pith::detail::bits_of<A> least, std::uint32_t* to) const {
    return compact(
        n, [=](std::uint32_t i) { return pith::detail::magnitude_bits(x[i]) >= least; },
        [=](std::uint32_t i, std::uint32_t place) { to[place] = i; });
  }

  void count_into(std::uint32_t* bins, std::uint32_t i, bool holds) const { add(bins + i, holds ? 1 : 0); }
  std::uint32_t add(std::uint32_t* word, std::uint32_t amount) const {
    return std::atomic_ref(*word).fetch_add(amount, std::memory_order_relaxed);
  }
  bool is_last(std::uint32_t* arrived, std::uint32_t blocks) const {
    meet();
    if (rank == 0) {
      shared->last = ++*arrived == blocks;
      if (shared->last) *arrived = 0;
    }
    meet();
    return shared->last;
  }

 private:
  void meet() const { shared->all.arrive_and_wait(); }

  std::uint32_t rank, size;
  team_shared* shared;
};

static_assert(pith::team<thread_team>);

/// Blocks of a device's size, each shared by a team of threads.
class team_executor : public pith::detail::host_memory {
 public:
  static constexpr std::uint32_t items_per_block = 2048;
  static constexpr char const* name() { return "team"; }

  explicit team_executor(std::uint32_t threads = 1) : threads_(threads) {}

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    for (std::uint64_t i = 0; i < n; ++i) f(i);
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    auto shared = team_shared(threads_);
    typename Body::memory fast;
    auto team = std::vector<std::jthread>();
    for (std::uint32_t rank = 0; rank < threads_; ++rank) {
      team.emplace_back([&, rank] {
        for (std::uint64_t b = 0; b < blocks; ++b) body(thread_team(rank, threads_, &shared), fast, b);
      });
    }
  }

 private:
  std::uint32_t threads_;
};

static_assert(pith::detail::host_executor<team_executor>);

}  // namespace support
