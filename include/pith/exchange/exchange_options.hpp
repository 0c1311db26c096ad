// pith/exchange/exchange_options.hpp — how a gradient_exchange is made.
#pragma once

#include <pith/comm/trace.hpp>
#include <pith/exchange/gather.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace pith::inline v0 {

/// When ranks make sure that they do the same.
enum class verify : std::uint8_t {
  when_built,  ///< the same tensors, codecs and options
  each_step,  ///< also the same codecs and agreed states, in each step; costs two all-gathers, of 24 and of 8 bytes, and
              ///< a pass over these states: for debugging
};

/// Equal on all ranks, but for `trace` and `is_recoverable`.
struct exchange_options {
  std::uint64_t seed = 0;
  gather how = gather::padded;
  /// Gradients of at most so many bytes travel together, or one tensor that has more; the last tensors, whose gradients
  /// come first, are the first bucket. Unless it is said: an eighth of the model, but 1 to 25 MiB, and a quarter of that
  /// for the first bucket.
  std::optional<std::size_t> bucket_bytes = {};
  /// Means are of gradients by their ranks' weights, which travel in each step in a sum of one double.
  bool is_weighted = false;
  verify when = verify::when_built;
  exchange_trace* trace = nullptr;
  /// export_state works after a step that failed, and one step back; costs memory for all states twice, and a pass over
  /// them in each step. Not for steps that a graph replays.
  bool is_recoverable = false;
};

}  // namespace pith::inline v0
