// pith/exchange/exchange_options.hpp — the options of a gradient_exchange.
#pragma once

#include <pith/comm/trace.hpp>
#include <pith/exchange/gather.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace pith::inline v0 {

/// When ranks check that they agree.
enum class verify : std::uint8_t {
  when_built,  ///< on tensors, codecs and options, once
  each_step,  ///< also on codecs and replicated states in each step, for debugging; costs two all-gathers, of 24 and of
              ///< 8 bytes, and a pass over these states
};

/// Options, equal on all ranks except `trace` and `is_recoverable`.
struct exchange_options {
  std::uint64_t seed = 0;
  gather how = gather::padded;
  /// Largest gradient bytes of a tensor bucket; a larger tensor is a bucket of its own. The first bucket has the last
  /// tensors, whose gradients backward computes first. The default is an eighth of the model, clamped to 1 to 25 MiB,
  /// and a quarter of that for the first bucket.
  std::optional<std::size_t> bucket_bytes = {};
  /// Means are weighted by a weight per rank and step, which costs a sum of one double in each step.
  bool is_weighted = false;
  verify when = verify::when_built;
  exchange_trace* trace = nullptr;  ///< must outlive the exchange
  /// export_state works after a failed step, and for one step back. Costs two copies of all states in memory, and a
  /// pass over them in each step. Not for steps that a graph replays.
  bool is_recoverable = false;
};

}  // namespace pith::inline v0
