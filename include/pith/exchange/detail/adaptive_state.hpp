// pith/exchange/detail/adaptive_state.hpp — the saved state of an adaptive_exchange.
#pragma once

#include <pith/codec/detail/saved_state.hpp>
#include <pith/core/detail/host_bytes.hpp>
#include <pith/core/error.hpp>
#include <pith/core/span.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

inline constexpr std::string_view adaptive_word = "adaptive_exchange";

/// The number of the next step (the first is 1), the size of the controller's state in bytes, and the learning rate.
struct adaptive_header {
  std::uint64_t step = 0, controller = 0;
  double learning_rate = 0;
};

/// The parts of a saved adaptive_exchange: a header, the controller's state, and the saved state of the
/// gradient_exchange.
struct adaptive_parts {
  adaptive_header head;
  span<std::byte const> controller, exchange;
};

/// Serialises the state of an adaptive_exchange. `words` describes the controller. The function sets
/// parts.head.controller.
inline std::vector<std::byte> save_adaptive(std::string const& words, adaptive_parts parts) {
  auto to = byte_writer();
  parts.head.controller = parts.controller.size();
  to.put(parts.head);
  to.bytes.insert(to.bytes.end(), parts.controller.begin(), parts.controller.end());
  to.bytes.insert(to.bytes.end(), parts.exchange.begin(), parts.exchange.end());
  return save_states(words, to.bytes);
}

/// Splits the values of an adaptive_exchange's states into their parts.
inline adaptive_parts open_adaptive(char const* call, span<std::byte const> states) {
  auto head = adaptive_header();
  require_whole(call, sizeof head, states.size());
  std::memcpy(&head, states.data(), sizeof head);
  auto const rest = states.subspan(sizeof head);
  require(head.controller <= rest.size(), call, ": the state is cut off: the controller's state must have ",
          head.controller, " bytes, got ", rest.size());
  return {head, rest.first(head.controller), rest.subspan(head.controller)};
}

}}}  // namespace pith::PITH_ABI::detail
