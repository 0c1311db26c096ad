// pith/exchange/exchange_report.hpp — bytes, errors and seconds of an exchange's step, per tensor.
#pragma once

#include <pith/comm/trace.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace pith::inline v0 {

/// A measured |x|^2 of a tensor, and the part of |x|^2 that compression loses or keeps. share() returns part / |x|^2.
/// Without a measurement, share() returns NaN. If x = 0, share() returns `of_zeros`.
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
  double ready_seconds = 0;  ///< from begin() to ready(), or to wait()
  double encode_seconds = 0, transfer_seconds = 0, decode_seconds = 0;
  measured_energy lost = {};  ///< lost part of |g|^2, measured by measure_errors
  measured_energy kept = {};  ///< kept part of |p|^2 at the first measured rate; p is the encoder's input

  /// The compression ratio dense_bytes / wire_bytes. The ratio is NaN for a single rank, which sends nothing.
  double ratio() const { return dense_bytes / wire_bytes; }
  /// |g - C(g)| / |g|.
  double error() const { return std::sqrt(lost.share(0)); }
  /// The gain of gravac: the kept share of |p|^2.
  double gain() const { return kept.share(1); }
};

/// The reports of all tensors, and their total.
///
///   wire_bytes   a rank that passes b bytes to a collective of N ranks sends b (N - 1) in an all-gather, 2 b (N - 1) /
///                N in an all-reduce, b (N - 1) / N in an all-to-all, and b in a swap or shift. A swap counts as b
///                bytes also for a rank without a partner. Headers of the transport, weights, and the checks of each
///                step are not counted
///   seconds      transfers overlap the backward pass and encoding, so the sum of all seconds is not the duration of a
///                step
struct exchange_report {
  std::vector<tensor_report> tensors;
  tensor_report total;
  std::size_t buckets = 0;
  double wait_seconds = 0;  ///< seconds that wait() took in the last step, after the backward pass
};

namespace detail {

inline double share(double part, double all) { return all > 0 ? part / all : 0; }

/// Divides the seconds of each tensor bucket among its tensors.
inline void share_out(std::vector<tensor_report>& tensors, std::vector<bucket_seconds> const& buckets) {
  auto elements = std::vector<double>(buckets.size()), bytes = elements;
  for (auto const& t : tensors) {
    elements[t.bucket] += static_cast<double>(t.elements);
    bytes[t.bucket] += t.wire_bytes;
  }
  for (auto& t : tensors) {
    auto const computed = share(static_cast<double>(t.elements), elements[t.bucket]);
    t.encode_seconds = buckets[t.bucket].encode * computed;
    t.decode_seconds = buckets[t.bucket].decode * computed;
    t.transfer_seconds = buckets[t.bucket].transfer * share(t.wire_bytes, bytes[t.bucket]);
  }
}

/// Adds the energies of a tensor to a total. Energies that were not measured are skipped.
inline void add_energy(measured_energy& sum, measured_energy const& e) {
  if (std::isnan(e.all)) return;
  if (std::isnan(sum.all)) sum.all = 0;
  sum.all += e.all;
  sum.part += e.part;
}

inline tensor_report total_of(std::vector<tensor_report> const& tensors) {
  auto total = tensor_report();
  total.name = "total";
  for (auto const& t : tensors) {
    total.elements += t.elements;
    total.dense_bytes += t.dense_bytes;
    total.wire_bytes += t.wire_bytes;
    total.ready_seconds = std::fmax(total.ready_seconds, t.ready_seconds);
    total.encode_seconds += t.encode_seconds;
    total.transfer_seconds += t.transfer_seconds;
    total.decode_seconds += t.decode_seconds;
    add_energy(total.lost, t.lost);
    add_energy(total.kept, t.kept);
  }
  return total;
}

}  // namespace detail
}  // namespace pith::inline v0
