// pith/core/buffer.hpp — an owning array in an executor's memory.
#pragma once

#include <pith/core/executor.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// `size()` elements of `T` in the memory of `E`, initialised to zero.
template <class T, executor E>
class buffer {
 public:
  buffer() = default;
  buffer(E const& exec, std::size_t size) : buffer() {
    exec_ = exec;
    if (size == 0) return;
    if (size > ~std::size_t{0} / sizeof(T)) throw std::bad_array_new_length();
    data_ = static_cast<T*>(exec.allocate(size * sizeof(T)));
    size_ = size;
    exec.fill(data_, std::byte{}, size_bytes());
  }
  buffer(buffer&& other) noexcept
      : exec_(other.exec_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(exec_, other.exec_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~buffer() {
    if (data_ != nullptr) exec_.deallocate(data_, size_ * sizeof(T));
  }

  /// Ensures at least `size` elements. If the buffer is too small, allocates zeros and discards the old elements.
  void grow(E const& exec, std::size_t size) {
    if (size > size_) *this = buffer(exec, size);
  }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t size_bytes() const { return size_ * sizeof(T); }
  span_on<E, T> view() const { return {data_, size_}; }

 private:
  E exec_{};
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}}  // namespace pith::PITH_ABI
