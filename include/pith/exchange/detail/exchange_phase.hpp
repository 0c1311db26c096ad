// pith/exchange/detail/exchange_phase.hpp — the phase of an exchange, and checks of the phase.
#pragma once

#include <pith/core/error.hpp>

namespace pith { inline namespace PITH_ABI { namespace detail {

enum class exchange_phase { idle, ready, failed };

inline void require_between_steps(exchange_phase at, char const* call) {
  require(at != exchange_phase::ready, "gradient_exchange: ", call,
          "() must be called between steps: call wait() first");
}
inline void require_intact(exchange_phase at, char const* call) {
  require(
      at != exchange_phase::failed, "gradient_exchange: ", call,
      "() is refused after a step that threw: call import_state() first, or, after a communication_error, import the "
      "state into a new exchange with a new communicator");
}
inline void require_idle(exchange_phase at, char const* call) {
  require_between_steps(at, call);
  require_intact(at, call);
}
inline void require_step(exchange_phase at, char const* call) {
  require_intact(at, call);
  require(at == exchange_phase::ready, "gradient_exchange: ", call,
          "() must be called during a step: call begin() first");
}

}}}  // namespace pith::PITH_ABI::detail
