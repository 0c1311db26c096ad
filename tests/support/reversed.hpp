// tests/support/reversed.hpp — the calling thread, which runs blocks from the last to the first.
#pragma once

#include <pith/exec/seq.hpp>

#include <cstdint>

namespace support {

/// If code depends on the order of blocks, its result differs from that of `seq`.
struct reversed : pith::detail::host_memory {
  static constexpr std::uint32_t items_per_block = 1024;
  static constexpr char const* name() { return "reversed"; }

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    for (auto i = n; i-- > 0;) f(i);
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    for (auto b = blocks; b-- > 0;) pith::detail::run_blocks(pith::best_isa(), body, b, b + 1);
  }
};

static_assert(pith::executor<reversed>);

}  // namespace support
