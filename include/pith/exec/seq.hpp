// pith/exec/seq.hpp — an executor that uses the calling thread; its results are the reference for all executors.
#pragma once

#include <pith/core/error.hpp>
#include <pith/core/executor.hpp>
#include <pith/exec/detail/host_memory.hpp>
#include <pith/exec/detail/host_team.hpp>

#include <algorithm>

namespace pith { inline namespace PITH_ABI { inline namespace PITH_ISA_NAMESPACE {

/// Runs all work immediately, in order, on the calling thread. Loops use the instruction set `level`, or the set that
/// the compiler flags enable if this set is larger. By default, `level` is best_isa().
class seq_executor : public detail::host_memory {
 public:
  static constexpr std::uint32_t items_per_block = 512;
  static constexpr char const* name() { return "seq"; }

  constexpr seq_executor() = default;
  explicit seq_executor(isa level) : most_(detail::runnable(level)) {}

  isa level() const { return std::clamp(most_, min_isa, best_isa()); }

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    using block = detail::index_block<F>;
    for_each_block(n / block::items_per_block + (n % block::items_per_block != 0), block{f, n});
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    if (blocks > 0) detail::run_blocks(level(), body, 0, blocks);
  }

 private:
  isa most_ = isa::avx512;
};

inline constexpr seq_executor seq{};

static_assert(executor<seq_executor>);

}}}  // namespace pith::PITH_ABI::PITH_ISA_NAMESPACE
