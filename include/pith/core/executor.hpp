// pith/core/executor.hpp — an executor: a memory space and a handful of asynchronous primitives.
#pragma once

#include <pith/core/span.hpp>
#include <pith/core/team.hpp>
#include <pith/core/values.hpp>
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
using values_on = value_view<T, space_of<E>>;
template <class E, class T>
using encoded_on = encoded<T, space_of<E>>;
template <class E, class T>
using parts_on = parts<T, space_of<E>>;
template <class E>
using workspace_on = workspace<space_of<E>>;

namespace detail {

struct noop {
  PITH_HD void operator()(std::uint64_t) const {}
};

}  // namespace detail

/// A place where work runs. Function objects are PITH_HD aggregates; a primitive may return before its work is done, and
/// the next one sees what it did.
///
///   for_each_index(n, f)                   f(i) for i < n, in any order
///   for_each_block(blocks, body)           body(team, memory, b) for b < blocks, in any order: `team` are the threads
///                                          that share the block, `memory` its fast memory, a Body::memory
///   items_per_block                             the elements of a tensor that a block should take, a multiple of 512; a
///                                          body that takes others may say how many, in a items_per_block of its own or
///                                          by block_elements(), so that threads share its blocks well
///   copy, fill, upload, download           bytes inside the space, to it and from it; download waits, upload may read
///                                          until wait() returns
///   wait                                   until all is done
template <class E>
concept executor = std::copyable<std::remove_cvref_t<E>> && memory_space<space_of<E>> &&
    requires(E const& exec, std::uint64_t n, std::size_t bytes, void* to, void const* from) {
  exec.for_each_index(n, detail::noop{});
  exec.for_each_block(n, detail::idle_block{});
  requires std::remove_cvref_t<E>::items_per_block % 512 == 0;
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

/// The least executor there is: what a stage is checked against before a real executor is known. It is never run, but
/// defined: without optimisation a function whose return type is deduced is linked even if it was only asked for its type.
struct archetype {
  using space = host_space;
  static constexpr char const* name() { return "archetype"; }

  static constexpr std::uint32_t items_per_block = 512;

  template <class F>
  void for_each_index(std::uint64_t, F const&) const {}
  template <class Body>
  void for_each_block(std::uint64_t, Body const&) const {}

  void copy(void*, void const*, std::size_t) const {}
  void fill(void*, std::byte, std::size_t) const {}
  void upload(void*, void const*, std::size_t) const {}
  void download(void*, void const*, std::size_t) const {}
  void wait() const {}
  void* allocate(std::size_t) const { return nullptr; }
  void deallocate(void*, std::size_t) const noexcept {}
};
static_assert(executor<archetype>);

}  // namespace pith::inline v0
