// pith/core/team.hpp — the threads that share a block of work and its fast memory.
#pragma once

#include <pith/core/call.hpp>

#include <concepts>
#include <cstdint>

namespace pith::inline v0 {

namespace detail {

/// A count that the compiler knows: loops over it have no remainder. std::integral_constant needs a flag in device code.
template <std::uint32_t N>
struct constant {
  PITH_HD constexpr operator std::uint32_t() const { return N; }
};

/// Room for values of any trivially copyable T; a block's memory runs no constructors.
template <class T, std::uint32_t N>
struct fast_array {
  PITH_HD T* data() { return reinterpret_cast<T*>(bytes); }
  PITH_HD T& operator[](std::uint32_t i) { return data()[i]; }

  alignas(64) unsigned char bytes[N * sizeof(T)];
};

struct no_work {
  PITH_HD void operator()(std::uint32_t) const {}
};

struct no_rows {
  PITH_HD no_work operator()(std::uint32_t) const { return {}; }
};

}  // namespace detail

/// What the body of a block may ask of the threads that run it, one on a host, hundreds on a device. All of a team call
/// the same functions in the same order, and after each call they all see what was written in it.
///
///   for_each(n, f)               f(i) for i < n, in any order; n is a number or a detail::constant
///   for_each_in(n, width, row)   row(i / width)(i) for i < n: what a row shares is read once, by row(j)
///   specializes                  whether loops of known counts are worth a second copy of a body
///   random(from, first, g, to)   to[8 j + lane] = from(first + j).lane(lane) for j < g
template <class T>
concept team = requires(T const& t, draws const& from, std::uint16_t* to) {
  { T::specializes } -> std::convertible_to<bool>;
  t.for_each(1u, detail::no_work{});
  t.for_each_in(1u, 1u, detail::no_rows{});
  t.random(from, std::uint64_t{}, 1u, to);
};

/// One thread by itself, in any host or device code: the reference for other teams.
struct lone_thread {
  static constexpr bool specializes = false;

  template <class Count, class F>
  PITH_HD void for_each(Count n, F const& f) const {
    for (std::uint32_t i = 0; i < n; ++i) f(i);
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

  PITH_SELDOM PITH_HD void random(draws const& from, std::uint64_t first, std::uint32_t groups,
                                  std::uint16_t* to) const {
    for (std::uint32_t j = 0; j < groups; ++j) {
      auto const block = from(first + j);
      for (std::uint32_t lane = 0; lane < 8; ++lane) to[8 * j + lane] = block.lane(lane);
    }
  }
};

static_assert(team<lone_thread>);

namespace detail {

struct idle_block {
  struct memory {};
  template <team Team>
  PITH_HD void operator()(Team const&, memory&, std::uint64_t) const {}
};

}  // namespace detail
}  // namespace pith::inline v0
