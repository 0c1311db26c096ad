// pith/comm/detail/adaptor.hpp — the base class of communicators that wrap another communicator.
#pragma once

#include <pith/comm/communicator.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// False if a constructor with these arguments would copy or move a Self. A constructor that accepts any arguments must
/// require this concept, so that it hides neither the copy constructor nor the move constructor.
template <class Self, class... Arguments>
concept constructs = sizeof...(Arguments) != 1 || !(std::derived_from<std::remove_cvref_t<Arguments>, Self> || ...);

/// The base class of a communicator that owns a `Comm`, forwards its calls and hides those that it replaces. An optional
/// call that `Comm` lacks is not a member. A derived class defines split(), which returns its own type.
template <class Comm>
class communicator_adaptor {
 public:
  unsigned rank() const { return comm_.rank(); }
  unsigned size() const { return comm_.size(); }
  void require_thread_support() const {
    if constexpr (has_thread_check<Comm>) comm_.require_thread_support();
  }
  pith::optional_calls optional_calls() const requires has_optional_calls<Comm> { return comm_.optional_calls(); }

  template <executor E>
  auto all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    return comm_.all_gather(exec, mine, all);
  }
  template <executor E, class T>
  auto all_reduce(E const& exec, span<T, space_of<E>> x, reduction how) {
    return comm_.all_reduce(exec, x, how);
  }
  template <executor E>
  auto all_to_all(E const& exec, span_on<E, std::byte const> mine,
                  span_on<E, std::byte> all) requires(calls_of<Comm, E>.all_to_all) {
    return comm_.all_to_all(exec, mine, all);
  }
  template <executor E>
  auto send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                 unsigned from) requires(calls_of<Comm, E>.send_recv) {
    return comm_.send_recv(exec, mine, to, theirs, from);
  }
  template <executor E, class T>
  auto reduce_scatter(E const& exec, span<std::type_identity_t<T> const, space_of<E>> mine, span<T, space_of<E>> part,
                      reduction how) requires(calls_of<Comm, E>.reduce_scatter) {
    return comm_.reduce_scatter(exec, mine, part, how);
  }
  template <executor E>
  auto broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) requires(calls_of<Comm, E>.broadcast) {
    return comm_.broadcast(exec, x, root);
  }

 protected:
  struct part_of {};

  template <class... Arguments>
    requires(constructs<communicator_adaptor, Arguments...>)
  explicit communicator_adaptor(Arguments&&... arguments) : comm_(std::forward<Arguments>(arguments)...) {}
  communicator_adaptor(part_of, Comm& whole, unsigned color) : comm_(whole.split(color)) {}

  Comm comm_;
};

}}}  // namespace pith::PITH_ABI::detail
