// pith/comm/detail/lent.hpp — memory that a transport uses, and that is never freed after a failed call.
#pragma once

#include <pith/comm/communicator.hpp>

#include <concepts>
#include <mutex>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Leaks memory intentionally, since a transport may still use this memory.
inline void keep(void* memory) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<void*>();
  auto const lock = std::lock_guard(mutex);
  kept.push_back(memory);
}

/// A request type whose destructor ends the transport's use of the call's memory, even if the call failed.
template <class R>
concept returns_memory = std::same_as<R, completed> || requires {
  requires R::returns_memory;
};

/// Memory that at most one call uses at a time. If that call throws, the memory is never freed, unless the type of the
/// call's request satisfies returns_memory.
template <class Memory>
class lent {
 public:
  lent() = default;
  explicit lent(Memory memory) : memory_(std::move(memory)) {}
  lent(lent&& other) noexcept : memory_(std::move(other.memory_)), is_lent_(std::exchange(other.is_lent_, false)) {}
  lent& operator=(lent&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(is_lent_, other.is_lent_);
    return *this;
  }
  ~lent() {
    if (is_lent_) keep(new Memory(std::move(memory_)));
  }

  Memory& operator*() { return memory_; }
  Memory const& operator*() const { return memory_; }

  /// Calls `call` and waits for the returned request.
  template <class E, class F>
  void wait(E const& exec, F const& call) {
    is_lent_ = !returns_memory<decltype(call())>;
    call().wait(exec);
    is_lent_ = false;
  }
  /// Calls `call` and returns its request. The caller then keeps the memory until the request ends.
  template <class F>
  auto start(F const& call) {
    is_lent_ = !returns_memory<decltype(call())>;
    auto request = call();
    is_lent_ = false;
    return request;
  }

 private:
  Memory memory_;
  bool is_lent_ = false;
};

}}}  // namespace pith::PITH_ABI::detail
