// pith/core/executor.hpp — the executor concept: a memory space and a few asynchronous functions.
#pragma once

#include <pith/core/span.hpp>
#include <pith/core/team.hpp>
#include <pith/core/values.hpp>
#include <pith/core/workspace.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

template <class E>
using space_of = typename std::remove_cvref_t<E>::space;
template <class E, class T>
using span_on = span<T, space_of<E>>;
template <class E, class T>
using values_on = value_view<T, space_of<E>>;
template <class E, class T>
using encoded_on = encoded<T, space_of<E>>;
template <class E, class T>
using gathered_on = gathered<T, space_of<E>>;
template <class E>
using workspace_on = workspace<space_of<E>>;

namespace detail {

struct noop {
  PITH_HD void operator()(std::uint64_t) const {}
};

}  // namespace detail

/// An executor runs function objects, which are PITH_HD aggregates. A function of the executor may return before its
/// work is done. Later functions see the effects of earlier functions.
///
///   for_each_index(n, f)           calls f(i) for each i < n, in any order
///   for_each_block(blocks, body)   calls body(team, memory, b) for each b < blocks, in any order. `team` is the
///                                  threads of the block. `memory` is a Body::memory in block-local memory (shared
///                                  memory on a device)
///   items_per_block                the preferred number of elements per block, a multiple of 512. A body with a
///                                  different number of elements per block declares items_per_block or
///                                  block_elements(), so that the executor can divide the blocks evenly among threads
///   copy, fill                     write bytes within the memory space
///   upload, download               copy bytes from host memory to the memory space, and back. download waits. upload
///                                  may read its source until wait() returns
///   wait                           returns after all submitted work is done
///   device_number                  the number of the device; 0 on a host
///   is_capturing                   true if submitted work is captured in a graph, and runs when the graph is replayed
template <class E>
concept executor = std::semiregular<std::remove_cvref_t<E>> && detail::memory_space<space_of<E>> &&
    requires(E const& exec, std::uint64_t n, std::size_t bytes, void* to, void const* from) {
  exec.for_each_index(n, detail::noop{});
  exec.for_each_block(n, detail::idle_block{});
  requires std::remove_cvref_t<E>::items_per_block % 512 == 0;
  exec.copy(to, from, bytes);
  exec.fill(to, std::byte{}, bytes);
  exec.upload(to, from, bytes);
  exec.download(to, from, bytes);
  exec.wait();
  { exec.device_number() } -> std::same_as<int>;
  { exec.is_capturing() } -> std::same_as<bool>;
  { exec.allocate(bytes) } -> std::same_as<void*>;
  exec.deallocate(to, bytes);
  { E::name() } -> std::convertible_to<char const*>;
};

namespace detail {

/// An executor whose memory the host can access.
template <class E>
concept host_executor = executor<E> && std::same_as<space_of<E>, host_space>;

}  // namespace detail

/// A minimal executor, with which concepts check a stage before the real executor is known. The functions of
/// `archetype` are never called. But these functions need bodies, because an unoptimised build links each caller whose
/// return type had to be deduced.
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
  static constexpr int device_number() { return 0; }
  static constexpr bool is_capturing() { return false; }
  void* allocate(std::size_t) const { return nullptr; }
  void deallocate(void*, std::size_t) const noexcept {}
};
static_assert(executor<archetype>);

}}  // namespace pith::PITH_ABI
