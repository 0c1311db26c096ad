// pith/core/span.hpp — memory spaces, and a span whose type names its memory space.
#pragma once

#include <pith/config.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI {

struct host_space {};
struct device_space {};

namespace detail {

template <class S>
concept memory_space = std::same_as<S, host_space> || std::same_as<S, device_space>;

/// A contiguous range whose elements have type T, or T without const. As with std::span, a temporary container converts
/// only to a span of const elements.
template <class R, class T>
concept contiguous_range_of = (std::is_lvalue_reference_v<R> || std::is_const_v<T> ||
                               std::ranges::enable_borrowed_range<std::remove_cvref_t<R>>) && requires(R& r) {
  std::begin(r);
  requires std::is_convertible_v<std::remove_pointer_t<decltype(std::data(r))> (*)[], T (*)[]>;
  { std::size(r) } -> std::convertible_to<std::size_t>;
};

}  // namespace detail

/// A span of `size()` elements in the memory space `Space`. Only a host span is a range, so no function that
/// expects a host span or a range accepts a device span.
template <class T, detail::memory_space Space = host_space>
class span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using space = Space;

  constexpr span() = default;
  PITH_HD constexpr span(T* data, std::size_t size) : data_(data), size_(size) {}

  template <class U>
    requires(std::same_as<U const, T>)
  PITH_HD constexpr span(span<U, Space> other) : data_(other.data()), size_(other.size()) {}

  template <class R>
    requires(std::same_as<Space, host_space> && !std::same_as<std::remove_cvref_t<R>, span> &&
             detail::contiguous_range_of<R, T>)
  constexpr span(R&& range) : data_(std::data(range)), size_(std::size(range)) {}

  PITH_HD constexpr T* data() const { return data_; }
  PITH_HD constexpr std::size_t size() const { return size_; }
  PITH_HD constexpr std::size_t size_bytes() const { return size_ * sizeof(T); }
  PITH_HD constexpr bool empty() const { return size_ == 0; }

  PITH_HD constexpr span first(std::size_t n) const { return span(data_, n); }
  PITH_HD constexpr span subspan(std::size_t from) const { return span(data_ + from, size_ - from); }
  PITH_HD constexpr span subspan(std::size_t from, std::size_t n) const { return span(data_ + from, n); }

  constexpr T* begin() const requires std::same_as<Space, host_space> { return data_; }
  constexpr T* end() const requires std::same_as<Space, host_space> { return data_ + size_; }
  constexpr T& operator[](std::size_t i) const requires std::same_as<Space, host_space> { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

template <class R>
span(R&&) -> span<std::remove_pointer_t<decltype(std::data(std::declval<R&>()))>, host_space>;
template <class T>
span(T*, std::size_t) -> span<T, host_space>;

template <class T>
using device_span = span<T, device_space>;

}}  // namespace pith::PITH_ABI
