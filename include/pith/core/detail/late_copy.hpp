// pith/core/detail/late_copy.hpp — a download that one step requests and the next step reads.
#pragma once

#include <pith/core/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Copies words from the executor's memory to the host: `ask` requests the copy, and `read` returns it. On a host,
/// `ask` copies immediately. On a device, `read` waits for all work that was submitted before `read`, and then copies.
/// An executor with events may specialise this class, so that `read` waits only for the work that was submitted before
/// `ask`.
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

}}}  // namespace pith::PITH_ABI::detail
