// pith/core/detail/late_copy.hpp — words of an executor's memory that the host asks for in one step and reads in the next.
#pragma once

#include <pith/core/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pith::inline v0::detail {

/// On a host it copies at once. Elsewhere `read` waits for all that was begun before it; the header of an executor that
/// can tell when a copy is done specialises this, so that `read` waits for what was begun before `ask` alone.
template <executor E>
class late_copy {
 public:
  late_copy() = default;
  explicit late_copy(std::size_t words) : words_(words) {}

  void ask(E const& exec, std::uint32_t const* from) {
    from_ = from;
    if constexpr (host_executor<E>) exec.download(words_.data(), from, words_.size() * sizeof(std::uint32_t));
  }
  std::uint32_t const* read(E const& exec) {
    if constexpr (!host_executor<E>) exec.download(words_.data(), from_, words_.size() * sizeof(std::uint32_t));
    return words_.data();
  }

 private:
  std::vector<std::uint32_t> words_;
  std::uint32_t const* from_ = nullptr;
};

}  // namespace pith::inline v0::detail
