// pith/exec/cuda_team.cuh — the threads of a CUDA block as a team.
#pragma once

#include <pith/core/team.hpp>

#include <concepts>
#include <cstdint>

namespace pith::inline v0::detail {

/// Eight values that are read and written 16 bytes at a time.
template <class A>
struct alignas(16) aligned_group {
  A of[group];
};

/// The threads of a kernel's block; one Philox block a thread. Bodies are for hosts too, so what they call is there as
/// well, where it does nothing and is not called.
struct cuda_team {
  static constexpr std::uint32_t threads = 256;
  static constexpr bool specializes = false;

  template <class Count, class F>
  PITH_HD void for_each([[maybe_unused]] Count n, [[maybe_unused]] F const& f) const {
#if defined(__CUDA_ARCH__)
    for (std::uint32_t i = threadIdx.x; i < n; i += threads) f(i);
    __syncthreads();
#endif
  }

  template <class Count, class Width, class Row>
  PITH_HD void for_each_in(Count n, Width width, Row const& row) const {
    for_each(n, [&](std::uint32_t i) { row(i / width)(i); });
  }

  PITH_HD void random(draws const& from, std::uint64_t first, std::uint32_t groups, std::uint16_t* to) const {
    for_each(groups, [&](std::uint32_t j) {
      auto const block = from(first + j);
      for (std::uint32_t lane = 0; lane < 8; ++lane) to[8 * j + lane] = block.lane(lane);
    });
  }

  template <class Count, class Keep>
  PITH_HD std::uint32_t count(Count n, Keep const& keep) const {
    return compact(n, keep, [](std::uint32_t, std::uint32_t) {});
  }

  /// A warp takes rows of 32 neighbours. A place is behind those of the warps before, the rows before and lower lanes.
  template <class Count, class Keep, class Emit>
  PITH_HD std::uint32_t compact([[maybe_unused]] Count n, [[maybe_unused]] Keep const& keep,
                                [[maybe_unused]] Emit const& emit) const {
    std::uint32_t kept = 0;
#if defined(__CUDA_ARCH__)
    __shared__ std::uint32_t of_warp[threads / 32];
    auto const lane = threadIdx.x % 32, warp = threadIdx.x / 32, begin = 32 * rows * warp + lane;
    for (std::uint32_t first = 0; first < n; first += rows * threads) {
      auto const votes = poll(first + begin, n, keep);
      if (lane == 0) of_warp[warp] = votes.kept;
      __syncthreads();
      auto place = kept;
      for (std::uint32_t w = 0; w < threads / 32; ++w) {
        if (w < warp) place += of_warp[w];
        kept += of_warp[w];
      }
      votes.emit(first + begin, place, (1u << lane) - 1, emit);
      __syncthreads();
    }
#endif
    return kept;
  }

  /// A thread a group, which it reads in 16 bytes at a time where it may.
  template <std::floating_point A, class Count>
  PITH_HD void negatives(A const* x, Count n, std::uint8_t* bytes) const {
    auto const* const aligned = reinterpret_cast<aligned_group<A> const*>(x);
    auto const whole = reinterpret_cast<std::uintptr_t>(x) % alignof(aligned_group<A>) == 0 ? n / 8 : 0;
    for_each(whole, [=](std::uint32_t g) {
      auto const values = aligned[g];
      bytes[g] = negative_byte(values.of, 0, group);
    });
    for_each(static_cast<std::uint32_t>(groups(n)) - whole,
             [=](std::uint32_t g) { bytes[whole + g] = negative_byte(x, whole + g, n); });
  }

  template <std::floating_point A, class Count>
  PITH_HD std::uint32_t at_least(A const* x, Count n, bits_of<A> least, std::uint32_t* to) const {
    return compact(
        n, [=](std::uint32_t i) { return magnitude_bits(x[i]) >= least; },
        [=](std::uint32_t i, std::uint32_t place) { to[place] = i; });
  }

  PITH_HD void tally(std::uint32_t* bins, std::uint32_t i, bool holds) const {
    if (holds) add(bins + i, 1);
  }
  PITH_HD std::uint32_t add([[maybe_unused]] std::uint32_t* word, [[maybe_unused]] std::uint32_t amount) const {
#if defined(__CUDA_ARCH__)
    return atomicAdd(word, amount);
#else
    return 0;
#endif
  }

 private:
  /// The elements of a thread that are looked at before its block waits: loads that go on side by side.
  static constexpr std::uint32_t rows = 8;

#if defined(__CUDA_ARCH__)
  /// Which of a warp's elements are kept, a word a row.
  struct ballot {
    std::uint32_t row[rows], kept;

    /// `lower` are the lanes below; a thread's elements begin at i, a warp's places at `place`.
    template <class Emit>
    __device__ void emit(std::uint32_t i, std::uint32_t place, std::uint32_t lower, Emit const& to) const {
      for (std::uint32_t r = 0; r < rows; ++r, i += 32) {
        if (row[r] & (lower + 1)) to(i, place + __popc(row[r] & lower));
        place += __popc(row[r]);
      }
    }
  };

  template <class Count, class Keep>
  __device__ static ballot poll(std::uint32_t i, Count n, Keep const& keep) {
    auto votes = ballot();
    for (std::uint32_t r = 0; r < rows; ++r, i += 32) {
      votes.row[r] = __ballot_sync(0xffffffffu, i < n && keep(i));
      votes.kept += __popc(votes.row[r]);
    }
    return votes;
  }
#endif
};

static_assert(team<cuda_team>);

}  // namespace pith::inline v0::detail
