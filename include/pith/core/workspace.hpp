// pith/core/workspace.hpp — scratch memory, which the caller allocates once and a call divides into pieces.
#pragma once

#include <pith/core/error.hpp>
#include <pith/core/span.hpp>
#include <pith/core/values.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace pith { inline namespace PITH_ABI {

namespace detail {

inline constexpr std::size_t scratch_alignment = 128;

constexpr std::size_t align_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace detail

/// The number of workspace bytes for `n` values of type `T`, including alignment.
template <class T>
constexpr std::size_t scratch_for(std::uint64_t n) {
  return detail::align_up(value_bytes<T>(n), detail::scratch_alignment);
}

/// A bump allocator over memory that the caller owns. Only one executor, or one CUDA stream, may use a workspace at a
/// time.
template <detail::memory_space Space = host_space>
class workspace {
 public:
  explicit workspace(span<std::byte, Space> memory) : memory_(memory) {
    auto const misaligned = reinterpret_cast<std::uintptr_t>(memory.data()) % detail::scratch_alignment;
    if (misaligned != 0) used_ = std::min(memory.size(), detail::scratch_alignment - misaligned);
    start_ = used_;
  }
  workspace(workspace const&) = delete;
  workspace& operator=(workspace const&) = delete;

  /// Returns uninitialised memory for `n` values of type `T`, aligned to 128 bytes. The memory is valid until the
  /// enclosing `scope`, which `mark()` returns, is destroyed.
  template <class T>
  value_view<T, Space> take(std::uint64_t n) {
    auto const size = scratch_for<T>(n);
    auto const left = memory_.size() - used_;
    if (size > left || storage<T>::words(n) > left / sizeof(typename storage<T>::word)) {  // the product may wrap
      throw workspace_exhausted(detail::sentence("workspace: the workspace must have ", size, " bytes left, got ", left,
                                                 " of ", memory_.size(), ": allocate workspace_bytes"));
    }
    auto* const data = reinterpret_cast<typename storage<T>::word*>(memory_.data() + used_);
    used_ += size;
    high_water_ = std::max(high_water_, used_ - start_);
    return {data, n, nullptr};
  }

  /// Returns the memory of take<std::byte>(n) as a span.
  span<std::byte, Space> take_bytes(std::size_t n) { return {take<std::byte>(n).data, n}; }

  /// Throws workspace_exhausted unless `bytes` bytes are left. The message contains `size_function`, the name of the
  /// function that returns `bytes`. Library functions call `require` before they change any data.
  void require(char const* call, char const* size_function, std::size_t bytes) const {
    auto const left = memory_.size() - used_, needed = bytes - std::min(bytes, detail::scratch_alignment);
    if (needed <= left) return;
    throw workspace_exhausted(detail::sentence(call, ": the workspace must have ", bytes, " bytes left, got ", left,
                                               " of ", memory_.size(), ": allocate ", size_function));
  }

  /// The destructor frees all memory that was taken from the workspace after the construction of this object.
  class [[nodiscard]] scope {
   public:
    explicit scope(workspace& ws) : ws_(ws), used_(ws.used_) {}
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;
    ~scope() { ws_.used_ = used_; }

   private:
    workspace& ws_;
    std::size_t used_;
  };
  scope mark() { return scope(*this); }

  /// The largest number of bytes that were in use at one time.
  std::size_t high_water() const { return high_water_; }

 private:
  span<std::byte, Space> memory_;
  std::size_t start_ = 0;
  std::size_t used_ = 0;
  std::size_t high_water_ = 0;
};

/// Makes a workspace from a caller's memory, for example from a std::vector<std::byte>.
template <class R>
  requires(std::convertible_to<R, span<std::byte>>)
workspace(R&&) -> workspace<host_space>;

}}  // namespace pith::PITH_ABI
