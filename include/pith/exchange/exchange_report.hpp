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

/// A measured |x|^2 of a tensor, and the part of it that is lost or kept. Without a measurement share() is NaN. If x =
/// 0, share() is `of_zeros`.
struct measured_energy {
  double all = std::numeric_limits<double>::quiet_NaN(), part = 0;

  double share(double of_zeros) const { return all == 0 ? of_zeros : part / all; }
};

/// A tensor in the last step, on this rank. Seconds are measured per bucket; a tensor gets a share in proportion to its
/// bytes for transfers, and to its elements for encoding and decoding.
struct tensor_report {
  std::string name;
  std::size_t bucket = 0;
  std::uint64_t elements = 0;
  double dense_bytes = 0;    ///< that this rank's interface would send in a sum of the uncompressed gradient
  double wire_bytes = 0;     ///< that the interface sends, padding included
  double ready_seconds = 0;  ///< from begin() to ready(), or to wait()
  double encode_seconds = 0, transfer_seconds = 0, decode_seconds = 0;
  measured_energy lost = {};  ///< of |g|^2, by gradient_exchange::measure_errors
  measured_energy kept = {};  ///< of |p|^2, p being the encoder's input, at the codec's first measured rate

  /// Compression ratio dense / sent bytes; NaN with one rank, which sends nothing.
  double ratio() const { return dense_bytes / wire_bytes; }
  /// |g - C(g)| / |g|.
  double error() const { return std::sqrt(lost.share(0)); }
  /// The gain of gravac: the kept share of |p|^2.
  double gain() const { return kept.share(1); }
};

/// The reports of all tensors, and their total.
///
///   wire_bytes   for b bytes of a rank, with N ranks in the group: gathered b (N - 1), summed 2 b (N - 1) / N,
///                scattered b (N - 1) / N, swapped or shifted b. Not counted: the transport's own bytes, the idle rank
///                of a swap, weights, and the checks of each step
///   seconds      of transfers overlap backward and encoding, so they do not add up to the seconds of a step
struct exchange_report {
  std::vector<tensor_report> tensors;
  tensor_report total;
  std::size_t buckets = 0;
  double wait_seconds = 0;  ///< of the last step, in wait(): the part that backward does not hide
};

namespace detail {

inline double share(double part, double all) { return all > 0 ? part / all : 0; }

/// Splits the seconds of each bucket among its tensors.
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

/// Adds the energies of a tensor, if they were measured.
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
