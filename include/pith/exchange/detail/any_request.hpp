// pith/exchange/detail/any_request.hpp — one request type for all calls of a communicator.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/comm/detail/lent.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A request of one of several types.
template <class... Request>
class request_among {
 public:
  static constexpr bool returns_memory = (detail::returns_memory<Request> && ...);

  template <class R>
    requires(std::same_as<R, Request> || ...)
  request_among(R request) : held_(std::move(request)) {}

  template <class E>
  void wait(E const& exec) {
    std::visit([&exec](auto& request) { request.wait(exec); }, held_);
  }
  template <class E>
  bool test(E const& exec) {
    return std::visit([&exec](auto& request) { return request.test(exec); }, held_);
  }

 private:
  std::variant<Request...> held_;
};

/// Removes duplicates from the types of a request_among.
template <class Found, class... Rest>
struct distinct_requests {
  using type = Found;
};
template <class... Found, class R, class... Rest>
struct distinct_requests<request_among<Found...>, R, Rest...>
    : distinct_requests<
          std::conditional_t<(std::same_as<Found, R> || ...), request_among<Found...>, request_among<Found..., R>>,
          Rest...> {};

template <class Comm, class E>
using gather_request = decltype(std::declval<Comm&>().all_gather(
    std::declval<E const&>(), span_on<E, std::byte const>(), span_on<E, std::byte>()));
template <class Comm, class E, class T>
using sum_request =
    decltype(std::declval<Comm&>().all_reduce(std::declval<E const&>(), span_on<E, T>(), reduction::sum));
/// `piece_request` is the request type of all_to_all, and `send_request` that of send_recv. If the communicator lacks
/// the collective, the type is `completed`.
template <class Comm, class E>
struct piece_request {
  using type = completed;
};
template <class Comm, class E>
  requires(calls_of<Comm, E>.all_to_all)
struct piece_request<Comm, E> {
  using type = decltype(std::declval<Comm&>().all_to_all(std::declval<E const&>(), span_on<E, std::byte const>(),
                                                         span_on<E, std::byte>()));
};
template <class Comm, class E>
struct send_request {
  using type = completed;
};
template <class Comm, class E>
  requires(calls_of<Comm, E>.send_recv)
struct send_request<Comm, E> {
  using type = decltype(std::declval<Comm&>().send_recv(std::declval<E const&>(), span_on<E, std::byte const>(), 0u,
                                                        span_on<E, std::byte>(), 0u));
};

/// The request type for all transfers of an exchange over `Comm`.
template <class Comm, class E>
using any_request =
    typename distinct_requests<request_among<completed>, gather_request<Comm, E>, typename piece_request<Comm, E>::type,
                               typename send_request<Comm, E>::type, sum_request<Comm, E, float>,
                               sum_request<Comm, E, double>, sum_request<Comm, E, half>, sum_request<Comm, E, bfloat16>,
                               sum_request<Comm, E, std::int32_t>, sum_request<Comm, E, std::int8_t>>::type;

}}}  // namespace pith::PITH_ABI::detail
