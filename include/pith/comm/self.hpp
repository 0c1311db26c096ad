// pith/comm/self.hpp — a communicator of one rank.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/comm/detail/arguments.hpp>

#include <cstddef>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

/// The communicator of a single rank. A collective with separate input and output copies the input to the output. An
/// in-place collective does nothing. A self_communicator has no state, allocates nothing, and may be used by any
/// thread.
class self_communicator {
 public:
  unsigned rank() const { return 0; }
  unsigned size() const { return 1; }

  template <executor E>
  completed all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_gather(mine.size(), all.size());
    return copied(exec, mine, all);
  }
  template <executor E>
  completed all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    return copied(exec, mine, all);
  }
  template <executor E>
  completed send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                      unsigned from) {
    arguments().send_recv(mine.size(), to, theirs.size(), from);
    return copied(exec, mine, theirs);
  }

  template <executor E, class T>
  completed all_reduce(E const&, span<T, space_of<E>>, reduction) {
    return {};
  }
  template <executor E, class T>
  completed reduce_scatter(E const& exec, span<std::type_identity_t<T> const, space_of<E>> mine,
                           span<T, space_of<E>> part, reduction) {
    arguments().reduce_scatter(mine.size(), part.size());
    exec.copy(part.data(), mine.data(), mine.size_bytes());
    return {};
  }
  template <executor E>
  completed broadcast(E const&, span_on<E, std::byte>, unsigned root) {
    arguments().peer("broadcast", "root", root);
    return {};
  }

  self_communicator split(unsigned) { return {}; }

 private:
  static detail::collective_arguments arguments() { return {"self_communicator", 0, 1}; }

  template <class E>
  static completed copied(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> to) {
    exec.copy(to.data(), mine.data(), mine.size());
    return {};
  }
};

static_assert(communicator<self_communicator, archetype> &&
              calls_of<self_communicator, archetype> == optional_calls::all());

}}  // namespace pith::PITH_ABI
