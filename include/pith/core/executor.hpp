// pith/core/executor.hpp — an executor: a memory space and a handful of asynchronous primitives.
#pragma once

#include <pith/core/span.hpp>
#include <pith/core/stream.hpp>
#include <pith/core/workspace.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith::inline v0 {

template <class E>
using space_of = typename std::remove_cvref_t<E>::space;
template <class E, class T>
using span_on = span<T, space_of<E>>;
template <class E, class T>
using stream_on = stream<T, space_of<E>>;
template <class E, class T>
using encoded_on = encoded<T, space_of<E>>;
template <class E>
using workspace_on = workspace<space_of<E>>;

namespace detail {

struct noop {
  PITH_HD void operator()(std::uint64_t) const {}
};
struct zero {
  PITH_HD double operator()(std::uint64_t) const { return 0; }
};
struct zero_key {
  PITH_HD std::uint32_t operator()(std::uint64_t) const { return 0; }
};
struct first_of {
  PITH_HD double operator()(double a, double) const { return a; }
};

}  // namespace detail

/// A place where work runs. Function objects are PITH_HD aggregates; a primitive may return before its work is done.
///
///   for_each_index(n, f)                     f(i) for i < n, in any order
///   reduce_into(out, n, f, merge, none, ws)  *out = the merge of f(i) in the tree's order (core/summation.hpp)
///   select_largest(out, k, n, key, ws)       the k indices of largest key(i), ascending; ties to the smaller index
///   copy, fill, upload, download             bytes inside the space, to it and from it; download waits
///   wait                                     until all is done
template <class E>
concept executor = std::copyable<std::remove_cvref_t<E>> && memory_space<space_of<E>> &&
    requires(E const& exec, std::uint64_t n, std::size_t bytes, workspace_on<E>& ws, double* sum,
             std::uint32_t* indices, void* to, void const* from) {
  exec.for_each_index(n, detail::noop{});
  exec.reduce_into(sum, n, detail::zero{}, detail::first_of{}, 0.0, ws);
  exec.select_largest(indices, n, n, detail::zero_key{}, ws);
  { exec.template reduce_scratch_bytes<double>(n) } -> std::same_as<std::size_t>;
  { exec.template select_scratch_bytes<std::uint32_t>(n) } -> std::same_as<std::size_t>;
  exec.copy(to, from, bytes);
  exec.fill(to, std::byte{}, bytes);
  exec.upload(to, from, bytes);
  exec.download(to, from, bytes);
  exec.wait();
  { exec.allocate(bytes) } -> std::same_as<void*>;
  exec.deallocate(to, bytes);
  { E::name() } -> std::convertible_to<char const*>;
};

/// One whose memory the host can touch.
template <class E>
concept host_executor = executor<E> && std::same_as<space_of<E>, host_space>;

namespace detail {

/// The least executor there is, declared only: what a stage is checked against before a real executor is known.
struct archetype {
  using space = host_space;
  static constexpr char const* name() { return "archetype"; }

  template <class F>
  void for_each_index(std::uint64_t, F const&) const;
  template <class T, class F, class Merge>
  void reduce_into(T*, std::uint64_t, F const&, Merge, T, workspace<>&) const;
  template <class F>
  void select_largest(std::uint32_t*, std::uint64_t, std::uint64_t, F const&, workspace<>&) const;
  template <class T>
  std::size_t reduce_scratch_bytes(std::uint64_t) const;
  template <class Key>
  std::size_t select_scratch_bytes(std::uint64_t) const;

  void copy(void*, void const*, std::size_t) const;
  void fill(void*, std::byte, std::size_t) const;
  void upload(void*, void const*, std::size_t) const;
  void download(void*, void const*, std::size_t) const;
  void wait() const;
  void* allocate(std::size_t) const;
  void deallocate(void*, std::size_t) const noexcept;
};
static_assert(executor<archetype>);

}  // namespace detail
}  // namespace pith::inline v0
