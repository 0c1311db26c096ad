// pith/core/detail/last_block.hpp — a block body after which the last finished block runs a second body.
#pragma once

#include <pith/core/executor.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Runs `Body` for each of `blocks` >= 1 blocks. Then the team that finishes last runs the body `last` for a single
/// block, which saves a kernel launch. `*arrived` is 0 before and after the kernel.
template <class Body, class Last>
struct with_last_block : Body {
  union memory {
    typename Body::memory many;
    typename Last::memory one;
  };

  Last last;
  std::uint32_t blocks;
  std::uint32_t* arrived;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    Body::operator()(team, fast.many, block);
    if (team.is_last(arrived, blocks)) last(team, fast.one, 0);
  }
};

/// Calls body(team, memory, b) for each b < blocks, then last(team, memory, 0). The call of `last` sees all writes of
/// the blocks.
template <executor E, class Body, class Last>
void for_each_block_then(E const& exec, std::uint64_t blocks, Body const& body, Last const& last,
                         std::uint32_t* arrived) {
  exec.for_each_block(blocks, with_last_block<Body, Last>{body, last, static_cast<std::uint32_t>(blocks), arrived});
}

}}}  // namespace pith::PITH_ABI::detail
