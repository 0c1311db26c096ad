// pith/exchange/messages.hpp — the messages of a transfer that a rank's network interface sends.
#pragma once

#include <pith/core/transfer.hpp>

#include <algorithm>

namespace pith { inline namespace PITH_ABI {

/// `count` successive messages within a subgroup, of `bytes` bytes each.
struct messages {
  double count = 0, bytes = 0;
  subgroup among = {};
};

namespace detail {

/// The messages that one of P ranks sends in a transfer of b bytes. In an all-to-all, b is the size of one piece. A
/// ring all-reduce sends 2 (P - 1) messages of b / P bytes, and so do the two transfers of a mean. A swap or shift
/// sends one message. An all-gather or all-to-all sends one message to each other rank.
inline messages messages_of(transport how, double bytes, unsigned ranks, subgroup const& among) {
  auto const others = static_cast<double>(ranks - 1);
  switch (how) {
    case transport::all_reduce_sum:
    case transport::all_reduce_max:
    case transport::all_reduce_mean: return {2 * others, bytes / ranks, among};
    case transport::pairwise:
    case transport::ring_shift: return {std::min(others, 1.0), bytes, among};
    default: return {others, bytes, among};
  }
}

}  // namespace detail
}}  // namespace pith::PITH_ABI
