// pith/core/state.hpp — what codecs remember: parts that agree on all ranks and parts that are a rank's own.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/core/call.hpp>

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace pith::inline v0 {

/// Sees the buffers of a state one after another: to count, save, load, copy or digest them.
class field_visitor {
 public:
  template <class T, class E>
  void operator()(buffer<T, E>& field) {
    visit(field.data(), field.size_bytes());
  }
  virtual void visit(void* data, std::size_t bytes) = 0;

 protected:
  ~field_visitor() = default;
};

/// A state shows its buffers, always in the same order, and can be moved.
template <class S>
concept codec_state_part = std::movable<S> && requires(S& state, field_visitor& f) {
  state.fields(f);
};

/// The state of a stage that has none.
struct no_state {
  void fields(field_visitor&) {}
};

namespace detail {

template <class T>
concept stateless = std::same_as<std::remove_const_t<T>, no_state>;

struct agreed_part {};
struct local_part {};

/// The states of the parts that a codec is made of.
template <class Part, class... State>
struct states {
  std::tuple<State...> each;

  void fields(field_visitor& f) {
    std::apply([&f](auto&... state) { (state.fields(f), ...); }, each);
  }
};

inline no_state nothing{};

/// Refuses states that were made for another codec, where that is known at run time only.
template <class C>
void require_states(C const& codec, auto const& agreed, auto const& local) {
  if constexpr (requires { codec.require_states(agreed, local); }) codec.require_states(agreed, local);
}

/// The argument of type `T`, or nothing.
template <class T, class First, class... Rest>
constexpr auto& pick(First& first, Rest&... rest) {
  if constexpr (std::same_as<std::remove_const_t<First>, T>) {
    return first;
  } else if constexpr (sizeof...(Rest) > 0) {
    return pick<T>(rest...);
  } else {
    return nothing;
  }
}

template <class S, class In, class E>
concept has_agreed = requires(S const& s, E const& exec, call const& id, shape const& dims) {
  s.template make_agreed<In>(exec, id, dims);
};
template <class S, class In, class E>
concept has_local = requires(S const& s, E const& exec, shape const& dims) {
  s.template make_local<In>(exec, dims);
};

}  // namespace detail

/// State that is equal on all ranks: a basis, a warm start. `no_state` if the stage declares no make_agreed.
template <class In, class S, executor E>
auto make_agreed(E const& exec, S const& s, call const& id, shape const& dims) {
  if constexpr (detail::has_agreed<S, In, E>) {
    return s.template make_agreed<In>(exec, id, dims);
  } else {
    return no_state{};
  }
}

/// State that is a rank's own: a residual, momentum, samples. `no_state` if the stage declares no make_local.
template <class In, class S, executor E>
auto make_local(E const& exec, S const& s, shape const& dims) {
  if constexpr (detail::has_local<S, In, E>) {
    return s.template make_local<In>(exec, dims);
  } else {
    return no_state{};
  }
}

template <class S, class In, class E>
using agreed_of =
    decltype(make_agreed<In>(std::declval<E const&>(), std::declval<S const&>(), std::declval<call const&>(), shape{}));
template <class S, class In, class E>
using local_of = decltype(make_local<In>(std::declval<E const&>(), std::declval<S const&>(), shape{}));

}  // namespace pith::inline v0
