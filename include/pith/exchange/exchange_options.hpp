// pith/exchange/exchange_options.hpp — the options of a gradient_exchange.
#pragma once

#include <pith/config.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace pith { inline namespace PITH_ABI {

class exchange_trace;  // pith/comm/trace.hpp

/// The mode that determines how many bytes of each payload an all-gather sends. A codec of fixed rate sends the same
/// number of bytes in all three modes.
enum class gather : std::uint8_t {
  padded,     ///< the full capacity of the payload
  exact,      ///< the used bytes; in each round, the host waits for an all-gather of the payloads' counts
  predicted,  ///< space for 1.25 c + 8 entries, where c is the largest count of any rank in the last step; entries that
              ///< exceed this space stay in the residual
};

/// When the ranks check that their settings are equal.
enum class verify : std::uint8_t {
  when_built,  ///< once, in the constructor; compares tensors, codecs and options. After an import, the first step
               ///< compares step counters and codecs
  each_step,   ///< in the constructor and, for debugging, in each step. The check in a step compares the numbers of
               ///< exchanges and of begun steps, step counters, codecs and replicated states. This check reads all
               ///< replicated states, and needs two all-gathers, of 24 and of 8 bytes per rank
};

/// The options of a gradient_exchange. All options except `trace`, `is_recoverable` and `self_test` must be equal on
/// all ranks.
struct exchange_options {
  std::uint64_t seed = 0;
  gather gather_mode = gather::padded;
  /// The maximum number of gradient bytes in a tensor bucket. A tensor with more bytes is a bucket of its own. The
  /// first bucket contains the last tensors, since the backward pass computes their gradients first. The default is
  /// 25 MiB on a device, and on a host an eighth of the model's size, but at least 1 MiB and at most 25 MiB. By default,
  /// the first bucket's limit is a quarter of the other buckets' limit, and a model with less than 2 MiB has one bucket.
  std::optional<std::size_t> bucket_bytes = {};
  /// If true, means are weighted, and each rank passes a weight in each step. Weights cost an all-gather of one double
  /// per step. Gradients of float and double are multiplied by N w / sum(w), at most N, and must stay finite. Weighted
  /// means of half below 2^-14 times max(N w / sum(w)) lose digits.
  bool is_weighted = false;
  verify verification = verify::when_built;
  exchange_trace* trace = nullptr;  ///< an optional trace, which must outlive the exchange
  /// If true, `export_state` can be called after a failed step, and can also return the state before the last complete
  /// step. The exchange then stores two copies of all states, and copies all states in each step. A CUDA graph must not
  /// replay the steps of such an exchange.
  bool is_recoverable = false;
  /// If true, the constructor tests random rounding on the executor (exec/self_test.hpp), once per process and device.
  bool self_test = true;
};

}}  // namespace pith::PITH_ABI
