// pith/runtime/run_ranks.hpp — threads as the ranks of compiled exchanges.
#pragma once

#include <pith/comm/any_communicator.hpp>
#include <pith/comm/timeout.hpp>

#include <functional>

namespace pith { inline namespace PITH_ABI { namespace runtime {

/// Calls f(communicator) on `ranks` threads at the same time, and joins the threads. If f throws on a rank, the next
/// communicator call of every other rank throws too. `run_ranks` then throws the same exception as pith::run_ranks
/// (comm/threads.hpp).
void run_ranks(unsigned ranks, std::function<void(any_communicator&)> const& f,
               timeout_duration timeout = default_timeout);

}}}  // namespace pith::PITH_ABI::runtime
