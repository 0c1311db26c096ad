// pith/exec/seq.hpp — the calling thread: the reference that every other executor agrees with.
#pragma once

#include <pith/core/executor.hpp>
#include <pith/core/summation.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <type_traits>

namespace pith::inline v0 {

/// Runs everything at once, in order, on the calling thread.
class seq_executor {
 public:
  using space = host_space;

  static constexpr char const* name() { return "seq"; }

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    for (std::uint64_t i = 0; i < n; ++i) f(i);
  }

  template <class T, class F, class Merge>
  void reduce_into(T* out, std::uint64_t n, F const& f, Merge merge, T none, workspace<>&) const {
    if (n == 0) {
      *out = none;
      return;
    }
    auto total = detail::pairwise<T, Merge>(merge);
    for (std::uint64_t from = 0; from < n; from += detail::tile) {
      total.add(reduce_tile<T>(from, std::min(n - from, detail::tile), f, merge));
    }
    *out = total.result();
  }
  template <class T>
  std::size_t reduce_scratch_bytes(std::uint64_t) const {
    return 0;
  }

  template <class F>
  void select_largest(std::uint32_t* out, std::uint64_t k, std::uint64_t n, F const& key, workspace<>& ws) const {
    using key_type = std::remove_cvref_t<decltype(key(0))>;
    if (k == 0) return;
    auto const scope = ws.mark();
    auto* keys = ws.take<key_type>(n).data;
    for (std::uint64_t i = 0; i < n; ++i) keys[i] = key(i);
    std::nth_element(keys, keys + (k - 1), keys + n, std::greater<>());
    auto const least = keys[k - 1];
    auto ties =
        k - static_cast<std::uint64_t>(std::count_if(keys, keys + (k - 1), [least](auto v) { return v > least; }));
    for (std::uint64_t i = 0; i < n; ++i) {
      auto const v = key(i);
      if (v > least || (v == least && ties > 0 && ties-- > 0)) *out++ = static_cast<std::uint32_t>(i);
    }
  }
  template <class Key>
  std::size_t select_scratch_bytes(std::uint64_t n) const {
    return scratch_for<Key>(n);
  }

  void copy(void* to, void const* from, std::size_t bytes) const {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  void fill(void* to, std::byte value, std::size_t bytes) const {
    if (bytes > 0) std::memset(to, std::to_integer<int>(value), bytes);
  }
  void upload(void* to, void const* from, std::size_t bytes) const { copy(to, from, bytes); }
  void download(void* to, void const* from, std::size_t bytes) const { copy(to, from, bytes); }
  void wait() const {}

  void* allocate(std::size_t bytes) const { return ::operator new(bytes, std::align_val_t(detail::scratch_alignment)); }
  void deallocate(void* memory, std::size_t) const noexcept {
    ::operator delete(memory, std::align_val_t(detail::scratch_alignment));
  }

 private:
  /// detail::reduce_tile with its lanes side by side, so that the loops over them can be vectorised.
  template <class T, class F, class Merge>
  static T reduce_tile(std::uint64_t from, std::uint64_t count, F const& f, Merge merge) {
    if (count < detail::tile) return detail::reduce_tile<T>(from, count, f, merge);
    T lane[detail::tile_lanes];
    for (std::uint64_t i = 0; i < detail::tile_lanes; ++i) lane[i] = f(from + i);
    for (std::uint64_t row = 1; row < detail::tile_rows; ++row) {
      for (std::uint64_t i = 0; i < detail::tile_lanes; ++i)
        lane[i] = merge(lane[i], f(from + row * detail::tile_lanes + i));
    }
    for (auto width = detail::tile_lanes / 2; width > 0; width /= 2) {
      for (std::uint64_t i = 0; i < width; ++i) lane[i] = merge(lane[2 * i], lane[2 * i + 1]);
    }
    return lane[0];
  }
};

inline constexpr seq_executor seq{};

static_assert(executor<seq_executor>);

}  // namespace pith::inline v0
