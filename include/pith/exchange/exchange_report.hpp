// pith/exchange/exchange_report.hpp — bytes, errors and seconds of an exchange's step, per tensor.
#pragma once

#include <pith/config.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// `all` is |x|^2 of a tensor x, or NaN if |x|^2 was not measured. `part` is the part of |x|^2 that compression loses
/// or keeps. share() returns part / all, or `of_zeros` if x = 0.
struct measured_energy {
  double all = std::numeric_limits<double>::quiet_NaN(), part = 0;

  double share(double of_zeros) const { return all == 0 ? of_zeros : part / all; }
};

/// The report of a tensor for the last step, on this rank. Seconds are measured per tensor bucket and divided among the
/// bucket's tensors. The seconds of transfers are divided among the tensors in proportion to their bytes. The seconds
/// of encoding and decoding are divided among the tensors in proportion to their elements.
struct tensor_report {
  std::string name;
  std::size_t bucket = 0;
  std::uint64_t elements = 0;
  double dense_bytes = 0;    ///< bytes that an all-reduce of the uncompressed gradient would send
  double wire_bytes = 0;     ///< bytes that this rank's interface sent, padding included
  double ready_seconds = 0;  ///< from begin() to ready(), or to wait() if ready() was not called
  double encode_seconds = 0, transfer_seconds = 0, decode_seconds = 0;
  measured_energy lost = {};  ///< lost part of |g|^2, measured by measure_errors
  measured_energy kept = {};  ///< kept part of |p|^2 at the first of measured_rates(); p is the encoder's input

  /// The compression ratio dense_bytes / wire_bytes. The ratio is NaN for a single rank, which sends nothing.
  double ratio() const { return dense_bytes / wire_bytes; }
  /// |g - D(C(g))| / |g|, if measure_errors measured it.
  double error() const { return std::sqrt(lost.share(0)); }
  /// The kept share of |p|^2, which the controller `gravac` calls the gain.
  double gain() const { return kept.share(1); }
};

/// The reports of all tensors, and their total.
///
///   wire_bytes   a rank that passes b bytes to a collective of N ranks sends b (N - 1) in an all-gather, 2 b (N - 1) /
///                N in an all-reduce, b (N - 1) / N in an all-to-all, and b in a swap or shift. For a swap, b bytes are
///                counted even on a rank without a partner. Headers of the transport, weights, and the checks of each
///                step are not counted
///   seconds      transfers overlap the backward pass and encoding, so the sum of all seconds may exceed the duration
///                of a step
struct exchange_report {
  std::vector<tensor_report> tensors;
  tensor_report total;
  std::size_t buckets = 0;
  double wait_seconds = 0;  ///< the duration of the last call of wait()
};

}}  // namespace pith::PITH_ABI
