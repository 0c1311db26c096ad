// pith/exchange/exchange_report.hpp — what a step of an exchange sent, lost and took, tensor by tensor.
#pragma once

#include <pith/comm/trace.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace pith::inline v0 {

/// What may be measured of a tensor: |x|^2, and what of it is lost or kept. Without a measurement its share is NaN; of
/// zeros nothing is lost and all is kept.
struct measured_energy {
  double all = std::numeric_limits<double>::quiet_NaN(), part = 0;

  double share(double of_zeros) const { return all == 0 ? of_zeros : part / all; }
};

/// A tensor in the last step, on this rank. Seconds are known bucket by bucket: a tensor has its share of its bucket's,
/// by the bytes that it sends where they travel, by its elements where they are encoded and decoded.
struct tensor_report {
  std::string name;
  std::size_t bucket = 0;
  std::uint64_t elements = 0;
  double dense_bytes = 0;    ///< that this rank's interface would send in a sum of the gradient as it is
  double wire_bytes = 0;     ///< that it sends, padding included
  double ready_seconds = 0;  ///< from begin() to ready(), or to wait()
  double encode_seconds = 0, transfer_seconds = 0, decode_seconds = 0;
  measured_energy lost = {};  ///< of |g|^2, by gradient_exchange::measure_errors
  measured_energy kept = {};  ///< of |p|^2, p being what the codec got, at the first rate that it measures

  /// How many times fewer bytes than dense; NaN among one rank, where nothing is sent.
  double ratio() const { return dense_bytes / wire_bytes; }
  /// |g - C(g)| / |g|.
  double error() const { return std::sqrt(lost.share(0)); }
  /// As gravac defines it: the share of |p|^2 that is kept.
  double gain() const { return kept.share(1); }
};

/// All tensors, and their sums.
///
///   wire_bytes   with N ranks, or those of a group, b bytes that a rank hands over are sent so: gathered b (N - 1),
///                summed 2 b (N - 1) / N, dealt out b (N - 1) / N, swapped or shifted b. What the transport adds, a rank
///                without a partner in a swap, weights and checks of each step are not counted
///   seconds      of transfers, which may lie under backward and under encoding: they do not add up to a step's
struct exchange_report {
  std::vector<tensor_report> tensors;
  tensor_report total;
  std::size_t buckets = 0;
  double wait_seconds = 0;  ///< of the last step, in wait(): what backward did not hide
};

namespace detail {

inline double share(double part, double all) { return all > 0 ? part / all : 0; }

/// Gives tensors their shares of the seconds of their buckets.
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

/// The energies of those tensors that were measured.
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
