// pith/exchange/messages.hpp — the messages of a transfer, and so the bytes that a rank's interface sends.
#pragma once

#include <pith/codec/rounds.hpp>

#include <algorithm>

namespace pith::inline v0 {

/// So many messages one after another, of so many bytes each, among the ranks of a group.
struct messages {
  double count = 0, bytes = 0;
  subgroup among = {};
};

namespace detail {

/// In a ring a rank sends a P-th of a sum 2 (P - 1) times; it swaps with one other, and shifts to one, if there is one; what is gathered
/// or dealt out it sends to each of the others.
inline messages messages_of(transport how, double bytes, unsigned ranks, subgroup const& among) {
  auto const others = static_cast<double>(ranks - 1);
  switch (how) {
    case transport::sum:
    case transport::max: return {2 * others, bytes / ranks, among};
    case transport::swap:
    case transport::shift: return {std::min(others, 1.0), bytes, among};
    default: return {others, bytes, among};
  }
}

}  // namespace detail
}  // namespace pith::inline v0
