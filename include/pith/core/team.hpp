// pith/core/team.hpp — the team concept: the threads that share a block and its block-local memory.
#pragma once

#include <pith/core/detail/runs.hpp>
#include <pith/core/draws.hpp>
#include <pith/core/element.hpp>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// The namespace for names that codecs of other libraries use. docs/design.md states how stable these names are.
namespace ext {

/// A count that is known at compile time, so that a loop with this count needs no remainder loop. In device code,
/// std::integral_constant would need a compiler flag.
template <std::uint32_t N>
struct constant {
  PITH_HD constexpr operator std::uint32_t() const { return N; }
};

/// Storage for N values of a trivially copyable type. It has no constructor, since constructors of objects in
/// block-local memory do not run.
template <class T, std::uint32_t N>
struct fast_array {
  PITH_HD T* data() { return reinterpret_cast<T*>(bytes); }
  PITH_HD T& operator[](std::uint32_t i) { return data()[i]; }

  alignas(64) unsigned char bytes[N * sizeof(T)];
};

/// The number of blocks for n elements, with `span` elements per block.
PITH_HD constexpr std::uint64_t blocks_for(std::uint64_t n, std::uint64_t span) { return n / span + (n % span != 0); }
/// The number of elements in the block that begins at element `first` < n.
PITH_HD constexpr std::uint32_t block_size(std::uint64_t n, std::uint64_t first, std::uint32_t span) {
  return n - first < span ? static_cast<std::uint32_t>(n - first) : span;
}

/// The bit pattern of |x| as an integer. The integers have the same order as the magnitudes: infinity is above every
/// finite number, and NaN is above infinity.
template <std::floating_point A>
PITH_HD inline detail::bits_of<A> magnitude_bits(A x) {
  return detail::bits_as<detail::bits_of<A>>(x) << 1 >> 1;
}

}  // namespace ext

namespace detail {

using namespace ext;

struct no_work {
  PITH_HD void operator()(std::uint32_t) const {}
  template <class Run>
  PITH_HD void operator()(std::uint32_t, Run const&) const {}
};

struct no_rows {
  PITH_HD no_work operator()(std::uint32_t) const { return {}; }
};

struct none_kept {
  PITH_HD bool operator()(std::uint32_t) const { return false; }
  PITH_HD void operator()(std::uint32_t, std::uint32_t) const {}
};

/// Returns a byte in which bit i is x[i] < 0, for i < count <= 8.
template <class Values>
PITH_HD inline std::uint8_t negative_byte(Values const& x, std::uint64_t count) {
  unsigned byte = 0;
  for (std::uint32_t i = 0; i < count; ++i) byte |= static_cast<unsigned>(x[i] < 0) << i;
  return static_cast<std::uint8_t>(byte);
}

/// The number of words that `filter_magnitude` may write after the last kept index.
inline constexpr std::uint32_t kept_slack = 16;

}  // namespace detail

/// A team consists of the threads that run a block body: one thread on a host, hundreds on a device. All threads of a
/// team call the same functions in the same order. After each call, every thread sees all writes of the call.
///
///   for_each(n, f)               calls f(i) for i < n, in any order; n is an integer or an ext::constant
///   for_each_in(n, width, row)   calls row(i / width)(i) for i < n. row(j) reads the data of row j once, for all
///                                elements of the row
///   for_each_run(n, well, f)     calls f(i, run) for runs of neighbouring elements that together cover n elements. The
///                                run starts at element i. For a team of one thread, one run has all elements. For
///                                other teams, a run is an octet, which is 8 elements or fewer. `well` means that
///                                octets are aligned for vector access (core/detail/runs.hpp)
///   specializes                  true if a second copy of a body, compiled for constant loop counts, is faster
///   by_octets                    true if runs are octets. A thread then keeps its octet in registers and does not
///                                access block-local memory in each operation. Only such a team has merge_rows
///   merge_rows(lanes, stride, rows, width, f, merge)
///                                sets lanes[stride r], for each r < rows, to the merge of f(r width + i) over i <
///                                width. The upper half of the values is merged into the lower half, repeatedly, until
///                                one value is left. `width` is an ext::constant
///   random(from, first, g, to)   sets to[8 j + lane] = from(first + j).lane(lane) for j < g and lane < 8
///   count(n, keep)               returns the number of indices i < n for which keep(i) is true
///   compact(n, keep, emit)       calls emit(i, place) for each i < n for which keep(i) is true, where `place` is 0, 1,
///                                2, ... in ascending order of i. Returns the number of calls
///   pack_signs(x, n, bytes)      sets bit i of `bytes` to x[i] < 0, for i < n. Unused bits of the last byte are zero
///   filter_magnitude(x, n, least, kept)
///                                writes to `kept` each index i < n with magnitude_bits(x[i]) >= least, in ascending
///                                order. `kept` has space for n + kept_slack indices. Returns the number of indices
///
/// The functions that are passed as `f` may call these functions:
///
///   count_into(bins, i, holds)   adds `holds` (0 or 1) to bins[i] in block-local memory
///   add(word, amount)            adds `amount` to *word atomically across blocks; returns the old value
///
/// All threads of a team call this function at the end of a block:
///
///   is_last(arrived, blocks)     returns true in the block whose call is the last of `blocks` calls. The last block
///                                sees all writes of the other blocks. *arrived is 0 before the first call and after
///                                the last call
///
/// A body must branch only on values that are equal in all threads of the team.
template <class T>
concept team = requires(T const& t, draws const& from, std::uint16_t* to, std::uint32_t* words) {
  { T::specializes } -> std::convertible_to<bool>;
  { T::by_octets } -> std::convertible_to<bool>;
  t.for_each(1u, detail::no_work{});
  t.for_each_in(1u, 1u, detail::no_rows{});
  t.for_each_run(1u, false, detail::no_work{});
  t.random(from, std::uint64_t{}, 1u, to);
  { t.count(1u, detail::none_kept{}) } -> std::same_as<std::uint32_t>;
  { t.compact(1u, detail::none_kept{}, detail::none_kept{}) } -> std::same_as<std::uint32_t>;
  t.pack_signs(static_cast<float const*>(nullptr), 1u, static_cast<std::uint8_t*>(nullptr));
  { t.filter_magnitude(static_cast<float const*>(nullptr), 1u, 1u, words) } -> std::same_as<std::uint32_t>;
  t.count_into(words, 1u, true);
  { t.add(words, 1u) } -> std::same_as<std::uint32_t>;
  { t.is_last(words, 1u) } -> std::same_as<bool>;
};

/// A team of one thread, in host or device code. Its results are the reference for the other teams.
struct serial_team {
  static constexpr bool specializes = false;
  static constexpr bool by_octets = false;

  template <class Count, class F>
  PITH_HD void for_each(Count n, F const& f) const {
    for (std::uint32_t i = 0; i < n; ++i) f(i);
  }

  template <class Count, class F>
  PITH_HD void for_each_run(Count n, bool, F const& f) const {
    f(0u, detail::block_run<Count>{n});
  }

  template <class Count, class Width, class Row>
  PITH_HD void for_each_in(Count n, Width width, Row const& row) const {
    std::uint32_t const rows = n / width;
    for (std::uint32_t j = 0; j < rows; ++j) {
      auto const f = row(j);
      for (std::uint32_t i = 0; i < width; ++i) f(j * width + i);
    }
    if (rows * width == n) return;
    auto const f = row(rows);
    for (std::uint32_t i = rows * width; i < n; ++i) f(i);
  }

  template <class Draws>
  PITH_NOINLINE PITH_HD void random(Draws const& from, std::uint64_t first, std::uint32_t octets,
                                    std::uint16_t* to) const {
    for (std::uint32_t j = 0; j < octets; ++j) {
      auto const block = from(first + j);
      for (std::uint32_t lane = 0; lane < 8; ++lane) to[8 * j + lane] = block.lane(lane);
    }
  }

  template <class Count, class Keep>
  PITH_HD std::uint32_t count(Count n, Keep const& keep) const {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < n; ++i) kept += keep(i) ? 1 : 0;
    return kept;
  }

  template <class Count, class Keep, class Emit>
  PITH_HD std::uint32_t compact(Count n, Keep const& keep, Emit const& emit) const {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      if (keep(i)) emit(i, kept++);
    }
    return kept;
  }

  template <std::floating_point A, class Count>
  PITH_HD void pack_signs(A const* x, Count n, std::uint8_t* bytes) const {
    for (std::uint32_t g = 0; g < detail::octets(n); ++g) {
      bytes[g] = detail::negative_byte(x + g * detail::octet, detail::octet_size(g, n));
    }
  }

  template <std::floating_point A, class Count>
  PITH_HD std::uint32_t filter_magnitude(A const* x, Count n, detail::bits_of<A> least, std::uint32_t* to) const {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      to[kept] = i;
      kept += detail::magnitude_bits(x[i]) >= least ? 1 : 0;
    }
    return kept;
  }

  /// The function has no branch, because a branch would often be mispredicted.
  PITH_HD void count_into(std::uint32_t* bins, std::uint32_t i, bool holds) const { bins[i] += holds ? 1 : 0; }

  PITH_HD std::uint32_t add(std::uint32_t* word, std::uint32_t amount) const {
    auto const before = *word;
    *word = before + amount;
    return before;
  }

  PITH_HD bool is_last(std::uint32_t* arrived, std::uint32_t blocks) const {
    auto const last = ++*arrived == blocks;
    if (last) *arrived = 0;
    return last;
  }
};

static_assert(team<serial_team>);

namespace detail {

/// The team for seldom called functions: on a host, a serial_team, so that a compiler translates such a function once
/// and not for each instruction set.
template <class Team>
PITH_HD auto const& plain_team(Team const& team) {
  if constexpr (std::derived_from<Team, serial_team>) {
    return static_cast<serial_team const&>(team);
  } else {
    return team;
  }
}

struct idle_block {
  struct memory {};
  template <team Team>
  PITH_HD void operator()(Team const&, memory&, std::uint64_t) const {}
};

}  // namespace detail
}}  // namespace pith::PITH_ABI
