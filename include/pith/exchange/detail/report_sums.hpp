// pith/exchange/detail/report_sums.hpp — the seconds and totals of an exchange's report.
#pragma once

#include <pith/comm/trace.hpp>
#include <pith/exchange/exchange_report.hpp>

#include <cmath>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

inline double share(double part, double all) { return all > 0 ? part / all : 0; }

/// A share of the energies of a vector.
inline measured_energy scaled(measured_energy const& e, double share) { return {share * e.all, share * e.part}; }

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

}}}  // namespace pith::PITH_ABI::detail
