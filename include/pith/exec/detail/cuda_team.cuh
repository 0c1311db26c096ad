// pith/exec/detail/cuda_team.cuh — the threads of a CUDA block as a team.
#pragma once

#include <pith/core/team.hpp>
#include <pith/exec/detail/warp_octet.cuh>

#if defined(__CUDACC__)
#include <cub/warp/warp_scan.cuh>
#endif

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

#if defined(__CUDA_ARCH__)
/// Each of `all` threads calls this function once. The function counts its calls in *arrived. The last call resets
/// *arrived to 0 and returns true, and its thread then sees the writes of the other threads.
__device__ inline bool arrives_last(std::uint32_t* arrived, std::uint32_t all) {
  __threadfence();
  auto const last = atomicAdd(arrived, 1u) + 1 == all;
  __threadfence();
  if (last) *arrived = 0;
  return last;
}
#endif

/// The team of a kernel's block. In `random`, one thread computes all eight lanes of a Philox block. Bodies are
/// compiled for hosts too. So the members of this class also exist in host code, where they are empty and never called.
struct cuda_team {
  static constexpr std::uint32_t threads = 256;
  /// The shared memory that the team's functions may use in addition to the body's shared memory.
  static constexpr std::uint32_t own_bytes = 256;
  static constexpr bool specializes = false;
  static constexpr bool by_octets = true;
  /// The largest number of elements for `filter_to_slots`.
  template <class A>
  static constexpr std::uint32_t placed = threads * 128 / sizeof(A);
  /// The place that `claim` returns if `filter_to_slots` must not emit the elements.
  static constexpr std::uint32_t nowhere = 0xffffffffu;

  template <class Count, class F>
  PITH_HD void for_each([[maybe_unused]] Count n, [[maybe_unused]] F const& f) const {
#if defined(__CUDA_ARCH__)
    for (std::uint32_t i = threadIdx.x; i < n; i += threads) f(i);
    __syncthreads();
#endif
  }

  /// The loops are not unrolled: one octet (8 elements) per iteration gives enough parallel loads, and several octets
  /// would not fit in registers. In the first loop, all 32 lanes of a warp process whole octets.
  template <class Count, class F>
  PITH_HD void for_each_run([[maybe_unused]] Count n, [[maybe_unused]] bool well, [[maybe_unused]] F const& f) const {
#if defined(__CUDA_ARCH__)
    auto const all = static_cast<std::uint32_t>(octets(n)), whole = static_cast<std::uint32_t>(n / (32 * octet)) * 32;
    auto g = threadIdx.x;
    PITH_CUDA_NO_UNROLL
    for (; well && g < whole; g += threads) f(g * std::uint32_t{octet}, warp_octet());
    PITH_CUDA_NO_UNROLL
    for (; g < all; g += threads) {
      auto const size = static_cast<std::uint32_t>(octet_size(g, n));
      f(g * std::uint32_t{octet}, loose_octet{size});
    }
    __syncthreads();
#endif
  }

  template <class Count, class Width, class Row>
  PITH_HD void for_each_in(Count n, Width width, Row const& row) const {
    // A single row needs no division.
    if (width < n) return for_each(n, [&](std::uint32_t i) { row(i / width)(i); });
    auto const only = row(0);
    for_each(n, [&](std::uint32_t i) { only(i); });
  }

  template <class Draws>
  PITH_HD void random(Draws const& from, std::uint64_t first, std::uint32_t octets, std::uint16_t* to) const {
    for_each(octets, [&](std::uint32_t j) {
      auto const block = from(first + j);
      for (std::uint32_t lane = 0; lane < 8; ++lane) to[8 * j + lane] = block.lane(lane);
    });
  }

  /// One warp merges one row, in registers.
  template <class T, std::uint32_t Width, class F, class Merge>
  PITH_HD void merge_rows([[maybe_unused]] T* lanes, [[maybe_unused]] std::uint32_t stride,
                          [[maybe_unused]] std::uint32_t count, constant<Width>, [[maybe_unused]] F const& f,
                          [[maybe_unused]] Merge const& merge) const {
#if defined(__CUDA_ARCH__)
    static_assert(Width % 64 == 0 && (Width & (Width - 1)) == 0);
    auto const lane = threadIdx.x % 32;
    for (auto row = threadIdx.x / 32; row < count; row += threads / 32) {
      T of[Width / 32];
      auto const at = row * Width + lane;
      for (std::uint32_t k = 0; k < Width / 32; ++k) of[k] = f(at + 32 * k);
      for (auto half = Width / 64; half > 0; half /= 2) {
        for (std::uint32_t k = 0; k < half; ++k) of[k] = merge(of[k], of[k + half]);
      }
      for (auto half = 16u; half > 0; half /= 2) of[0] = merge(of[0], lanes_above(of[0], half));
      if (lane == 0) lanes[stride * row] = of[0];
    }
    __syncthreads();
#endif
  }

  template <class Count, class Keep>
  PITH_HD std::uint32_t count(Count n, Keep const& keep) const {
    return compact(n, keep, [](std::uint32_t, std::uint32_t) {});
  }

  /// Each warp processes `rows` rows of 32 neighbouring elements at a time. The places of kept elements ascend by warp,
  /// then by row, then by lane, which is the order of the elements.
  template <class Count, class Keep, class Emit>
  PITH_HD std::uint32_t compact([[maybe_unused]] Count n, [[maybe_unused]] Keep const& keep,
                                [[maybe_unused]] Emit const& emit) const {
    std::uint32_t kept = 0;
#if defined(__CUDA_ARCH__)
    auto const lane = threadIdx.x % 32, begin = threadIdx.x / 32 * 32 * rows + lane;
    for (std::uint32_t first = 0; first < n; first += rows * threads) {
      auto const votes = poll(first + begin, n, keep);
      auto const warps = sums_of_warps(votes.kept);
      votes.emit(first + begin, kept + warps.before, (1u << lane) - 1, emit);
      kept += warps.all;
    }
    __syncthreads();
#endif
    return kept;
  }

  /// Each thread processes one octet at a time.
  template <std::floating_point A, class Count>
  PITH_HD void pack_signs(A const* x, Count n, std::uint8_t* bytes) const {
    for_each_run(n, is_vector_aligned(x), [=](std::uint32_t i, auto const& run) {
      bytes[i / octet] = negative_byte(run.read(x + i), run.count());
    });
  }

  /// Each thread tests one octet at a time. `filter_magnitude` is fast if few elements are kept.
  template <std::floating_point A, class Count>
  PITH_HD std::uint32_t filter_magnitude([[maybe_unused]] A const* x, [[maybe_unused]] Count n,
                                         [[maybe_unused]] bits_of<A> least, [[maybe_unused]] std::uint32_t* to) const {
    std::uint32_t kept = 0;
#if defined(__CUDA_ARCH__)
    auto const well = is_vector_aligned(x);
    for (std::uint32_t first = 0; first < n; first += octet * threads) {
      auto const i = first + std::uint32_t{octet} * threadIdx.x;
      auto reach = i < n ? reaching(x + i, n - i, least, well) : 0;
      auto const lanes = sums_of_lanes(static_cast<std::uint32_t>(__popc(reach)));
      auto const warps = sums_of_warps(lanes.all);
      for (auto place = kept + warps.before + lanes.before; reach != 0; reach &= reach - 1) {
        to[place++] = i + static_cast<std::uint32_t>(__ffs(reach)) - 1;
      }
      kept += warps.all;
    }
    __syncthreads();
#endif
    return kept;
  }

  /// Tests n <= placed<A> elements as `filter_magnitude` does, but the number of barriers does not depend on n. One
  /// thread calls claim(kept), where `kept` is the number of kept elements. `claim` returns the first place of the
  /// kept elements, or `nowhere`. Then emit(i, place) is called for each kept element i; the places ascend with i. If
  /// `claim` returns `nowhere`, `filter_to_slots` returns false and does not call `emit`.
  template <std::floating_point A, class Count, class Claim, class Emit>
  PITH_HD bool filter_to_slots([[maybe_unused]] A const* x, [[maybe_unused]] Count n, [[maybe_unused]] bits_of<A> least,
                               [[maybe_unused]] Claim const& claim, [[maybe_unused]] Emit const& emit) const {
#if defined(__CUDA_ARCH__)
    __shared__ std::uint32_t place;
    auto const i =
        threadIdx.x / 32 * 32 * octets_of<A> * std::uint32_t{octet} + threadIdx.x % 32 * std::uint32_t{octet};
    auto const reach = reaching_rows(x, n, least, i);
    auto const places = row_places(reach);
    auto const warps = sums_of_warps(places.all);
    if (threadIdx.x == 0) place = claim(warps.all);
    __syncthreads();
    auto const first = place;
    if (first == nowhere) return false;
    places.emit(reach, i, first + warps.before, emit);
    __syncthreads();
#endif
    return true;
  }

  PITH_HD void count_into(std::uint32_t* bins, std::uint32_t i, bool holds) const {
    if (holds) add(bins + i, 1);
  }
  PITH_HD std::uint32_t add([[maybe_unused]] std::uint32_t* word, [[maybe_unused]] std::uint32_t amount) const {
#if defined(__CUDA_ARCH__)
    return atomicAdd(word, amount);
#else
    return 0;
#endif
  }

  /// One thread counts its block as arrived. This thread's fence covers all writes of the block before the barrier.
  PITH_HD bool is_last([[maybe_unused]] std::uint32_t* arrived, [[maybe_unused]] std::uint32_t blocks) const {
#if defined(__CUDA_ARCH__)
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) last = arrives_last(arrived, blocks);
    __syncthreads();
    return last;
#else
    return false;
#endif
  }

 private:
  /// The number of elements that a thread tests in `compact` before its block synchronises. The loads of these elements
  /// run in parallel.
  static constexpr std::uint32_t rows = 8;

  /// The number of octets that a thread tests in `filter_to_slots`. The octets have 128 bytes, whose loads run in
  /// parallel.
  template <class A>
  static constexpr std::uint32_t octets_of = 16 / sizeof(A);

#if defined(__CUDA_ARCH__)
  /// Returns the value of the lane whose number is greater by `distance`.
  template <class T>
  __device__ static T lanes_above(T value, std::uint32_t distance) {
    static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
    std::uint32_t words[sizeof(T) / sizeof(std::uint32_t)];
    __builtin_memcpy(words, &value, sizeof(T));
    for (auto& word : words) word = __shfl_down_sync(0xffffffffu, word, distance);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
  }

  template <class T>
  struct sums_as {
    T before, all;
  };
  using sums = sums_as<std::uint32_t>;
  /// Sums the warps' `own` values over the lower warps (`before`) and over all warps (`all`).
  __device__ static sums sums_of_warps(std::uint32_t own) {
    __shared__ std::uint32_t of_warp[threads / 32];
    auto const warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) of_warp[warp] = own;
    __syncthreads();
    auto found = sums();
    for (std::uint32_t w = 0; w < threads / 32; ++w) {
      if (w < warp) found.before += of_warp[w];
      found.all += of_warp[w];
    }
    __syncthreads();
    return found;
  }
  /// Sums the lanes' `own` values over the lower lanes of the warp (`before`) and over all its lanes (`all`).
  /// CUB_NS_QUALIFIER is CUB's namespace, which a user may have changed.
  template <class T>
  __device__ static sums_as<T> sums_of_lanes(T own) {
    using scan = CUB_NS_QUALIFIER::WarpScan<T>;
    __shared__ typename scan::TempStorage of_warp[threads / 32];
    auto found = sums_as<T>();
    scan(of_warp[threadIdx.x / 32]).ExclusiveSum(own, found.before, found.all);
    return found;
  }

  /// Returns a mask in which bit i is magnitude_bits(p[i]) >= least, for i < min(left, octet).
  template <class A>
  __device__ static std::uint32_t reaching(A const* p, std::uint32_t left, bits_of<A> least, bool well) {
    if (well && left >= octet) return reaching(aligned_octet(), p, least);
    return reaching(loose_octet{left < octet ? left : std::uint32_t{octet}}, p, least);
  }
  template <class Run, class A>
  __device__ static std::uint32_t reaching(Run const& run, A const* p, bits_of<A> least) {
    auto const own = run.read(p);
    std::uint32_t reach = 0;
    for (std::uint32_t i = 0; i < octet; ++i) {
      if (i < run.count() && magnitude_bits(own[i]) >= least) reach |= 1u << i;
    }
    return reach;
  }

  /// Returns a mask of eight bits for each octet of the thread. The octets begin at elements i, i + 256, ...
  template <class A, class Count>
  __device__ static std::uint32_t reaching_rows(A const* x, Count n, bits_of<A> least, std::uint32_t i) {
    constexpr auto width = std::uint32_t{octet}, row = 32 * width, all = row * octets_of<A>;
    auto const well = is_vector_aligned(x);
    std::uint32_t reach = 0;
    if (well && i + all - row + width <= n) {
      for (std::uint32_t r = 0; r < octets_of<A>; ++r) {
        reach |= reaching(aligned_octet(), x + i + r * row, least) << width * r;
      }
    } else {
      PITH_CUDA_NO_UNROLL
      for (std::uint32_t r = 0; r < octets_of<A> && i + r * row < n; ++r) {
        reach |= reaching(x + i + r * row, n - i - r * row, least, well) << width * r;
      }
    }
    return reach;
  }

  /// The places of a thread's kept elements among those of its warp. The places ascend by row, then by lane, which is
  /// the order of the elements. A 64-bit word has one 16-bit field per row, so one scan counts all rows.
  struct row_places {
    std::uint64_t first;
    std::uint32_t all;

    __device__ explicit row_places(std::uint32_t reach) {
      std::uint64_t own = 0;
      for (std::uint32_t r = 0; r < 4; ++r) {
        own |= std::uint64_t(static_cast<std::uint32_t>(__popc(reach >> 8 * r & 0xff))) << 16 * r;
      }
      auto const lanes = sums_of_lanes(own);
      auto const through = lanes.all * 0x0001000100010001u;  // field r: the sum over rows 0 .. r
      first = lanes.before + (through << 16);
      all = static_cast<std::uint32_t>(through >> 48);
    }

    template <class Emit>
    __device__ void emit(std::uint32_t reach, std::uint32_t i, std::uint32_t place, Emit const& to) const {
      for (auto next = first; reach != 0; reach &= reach - 1) {
        auto const bit = static_cast<std::uint32_t>(__ffs(reach)) - 1, row = bit / 8;
        to(i + 256 * row + bit % 8, place + (static_cast<std::uint32_t>(next >> 16 * row) & 0xffff));
        next += std::uint64_t{1} << 16 * row;
      }
    }
  };

  /// The ballots of a warp, one word per row, and the number of elements that the warp keeps.
  struct ballot {
    std::uint32_t row[rows], kept;

    /// `lower` is the mask of the lanes below this lane, `i` is the thread's first element, and `place` is the place of
    /// the warp's first kept element.
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

}}}  // namespace pith::PITH_ABI::detail
