// pith/exchange/detail/gather.hpp — the sizes of gathered payloads, and the counts in payloads of variable rate.
#pragma once

#include <pith/codec/compact.hpp>
#include <pith/exchange/detail/exchange_plan.hpp>
#include <pith/exchange/exchange_options.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

constexpr char const* gather_name(gather how) {
  switch (how) {
    case gather::exact: return "exact";
    case gather::predicted: return "predicted";
    default: return "padded";
  }
}

/// Throws std::invalid_argument during the capture of a graph, since a replay would use the captured sizes. Does
/// nothing for an executor without graphs.
template <class E>
void require_no_capture(E const& exec, gather how) {
  require(!exec.is_capturing(), "gradient_exchange::begin: gather::", gather_name(how),
          " must not be captured in a graph, because sizes change in each step: use gather::padded");
}

/// The offset of a count in a payload, and the largest valid count.
struct count_place {
  std::size_t at;
  std::uint64_t most;
};

/// A visitor that lists the places of a payload's counts, without reading the counts.
struct count_finder final : piece_visitor {
  std::vector<count_place> found;

  std::uint32_t count(std::size_t side, std::size_t offset, std::uint64_t most) override {
    found.push_back({side + offset, most});
    return 0;
  }
  void piece(payload_piece const&) override {}
};

template <class In, class C>
std::vector<count_place> counts_of(C const& codec, shape const& dims) {
  auto finder = count_finder();
  visit_pieces<In>(codec, dims, finder);
  return std::move(finder.found);
}

/// A visitor that calls f with each used piece of a payload. `counts` are the payload's counts.
template <class F>
struct piece_walk final : piece_visitor {
  piece_walk(std::uint32_t const* c, F const& to) : counts(c), f(to) {}

  std::uint32_t count(std::size_t, std::size_t, std::uint64_t) override { return *counts++; }
  void piece(payload_piece const& used) override { f(used); }

  std::uint32_t const* counts;
  F const& f;
};

}}}  // namespace pith::PITH_ABI::detail
