// pith/exec/detail/host_team.hpp — a team of one host thread, whose loops are compiled for the CPU's instruction set.
#pragma once

#include <pith/core/detail/float_environment.hpp>
#include <pith/core/team.hpp>
#include <pith/exec/detail/compaction.hpp>
#include <pith/exec/detail/pack_signs.hpp>
#include <pith/exec/detail/philox.hpp>
#include <pith/exec/isa.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail { inline namespace PITH_ISA_NAMESPACE {

// Block bodies are host-device functions. So nvcc requires PITH_HD (`__host__ __device__`) on the team functions that
// bodies call. The team functions below call host functions, and the pragma turns off nvcc's check of these calls.
#if defined(__CUDACC__)
#define PITH_CALLS_HOST _Pragma("nv_exec_check_disable")
#else
#define PITH_CALLS_HOST
#endif

/// A team of one thread, whose loops are compiled for the instruction set `Level`.
template <isa Level>
struct host_team : serial_team {
  static constexpr bool specializes = Level != isa::baseline;

  PITH_CALLS_HOST
  template <class Draws>
  PITH_HD void random(Draws const& from, std::uint64_t first, std::uint32_t octets, std::uint16_t* to) const {
    std::uint32_t done = 0;
#if PITH_VECTOR_LOOPS
    if constexpr (Level == isa::avx512) {
      for (; done + 16 <= octets && from.in_one_word(first + done, 16); done += 16) {
        philox_16_avx512(from.counter(first + done), from.key(), from.rounds(), to + 8 * done);
      }
    } else if constexpr (Level == isa::avx2) {
      for (; done + 8 <= octets && from.in_one_word(first + done, 8); done += 8) {
        philox_8_avx2(from.counter(first + done), from.key(), from.rounds(), to + 8 * done);
      }
    }
#endif
    if (done < octets) serial_team::random(from, first + done, octets - done, to + 8 * done);
  }

  PITH_CALLS_HOST
  template <std::floating_point A, class Count>
  PITH_HD void pack_signs(A const* x, Count n, std::uint8_t* bytes) const {
    std::uint32_t done = 0;
#if PITH_VECTOR_LOOPS
    if constexpr (Level == isa::avx512) {
      done = pack_signs_avx512(x, n, bytes);
    } else if constexpr (Level == isa::avx2) {
      done = pack_signs_avx2(x, n, bytes);
    }
#endif
    if (done < n) serial_team::pack_signs(x + done, n - done, bytes + done / octet);
  }

  PITH_CALLS_HOST
  template <std::floating_point A, class Count>
  PITH_HD std::uint32_t filter_magnitude(A const* x, Count n, bits_of<A> least, std::uint32_t* to) const {
#if PITH_VECTOR_LOOPS
    if constexpr (Level == isa::avx512) {
      return filter_magnitude_avx512(x, n, least, to);
    } else if constexpr (Level == isa::avx2) {
      return filter_magnitude_avx2(x, n, least, to);
    }
#endif
    return serial_team::filter_magnitude(x, n, least, to);
  }

  /// The addition is atomic, because other threads may run other blocks at the same time.
  PITH_CALLS_HOST
  PITH_HD std::uint32_t add(std::uint32_t* word, std::uint32_t amount) const {
    return __atomic_fetch_add(word, amount, __ATOMIC_RELAXED);
  }
  PITH_CALLS_HOST
  PITH_HD bool is_last(std::uint32_t* arrived, std::uint32_t blocks) const {
    auto const last = __atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL) == blocks;
    if (last) *arrived = 0;
    return last;
  }
};

template <isa Level, class Body>
inline void run_blocks_on(Body const& given, std::uint64_t first, std::uint64_t last) {
  auto const body = given;  // byte stores cannot change a local copy, so its members can stay in registers
  typename Body::memory fast;
  for (auto b = first; b < last; ++b) body(host_team<Level>(), fast, b);
}

#if PITH_ISA_DISPATCH
template <class Body>
PITH_TARGET_AVX512 __attribute__((flatten, noinline)) void run_blocks_avx512(Body const& body, std::uint64_t first,
                                                                             std::uint64_t last) {
  run_blocks_on<isa::avx512>(body, first, last);
}
template <class Body>
PITH_TARGET_AVX2 __attribute__((flatten, noinline)) void run_blocks_avx2(Body const& body, std::uint64_t first,
                                                                         std::uint64_t last) {
  run_blocks_on<isa::avx2>(body, first, last);
}
#endif

/// Runs blocks [first, last) of a block body on this thread.
template <class Body>
void run_blocks([[maybe_unused]] isa level, Body const& body, std::uint64_t first, std::uint64_t last) {
  auto const environment = default_float_environment();
#if PITH_ISA_DISPATCH
  if constexpr (min_isa < isa::avx512) {
    if (level == isa::avx512) return run_blocks_avx512(body, first, last);
  }
  if constexpr (min_isa < isa::avx2) {
    if (level == isa::avx2) return run_blocks_avx2(body, first, last);
  }
#endif
  run_blocks_on<min_isa>(body, first, last);
}

/// A block body that calls f(i) for the indices i of a block. Host executors run `for_each_index` with this body.
template <class F>
struct index_block {
  static constexpr std::uint64_t items_per_block = 4096;
  struct memory {};
  F f;
  std::uint64_t n;

  template <class Team>
  void operator()(Team const&, memory&, std::uint64_t block) const {
    auto const own = f;
    auto const last = n - block * items_per_block < items_per_block ? n : (block + 1) * items_per_block;
    for (auto i = block * items_per_block; i < last; ++i) own(i);
  }
};

}}}}  // namespace pith::PITH_ABI::detail::PITH_ISA_NAMESPACE
