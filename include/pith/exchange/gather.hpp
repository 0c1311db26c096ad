// pith/exchange/gather.hpp — how gathered payloads travel, and where the counts of those of variable rate lie.
#pragma once

#include <pith/codec/any_codec.hpp>
#include <pith/codec/compact.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/exchange_plan.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pith::inline v0 {

/// How the payloads of an exchange travel that are gathered. Fixed rates travel alike in all three.
enum class gather : std::uint8_t {
  padded,     ///< at full capacity
  exact,      ///< cut to what they use: in each round one more all-gather, of all counts, and one wait
  predicted,  ///< at 1.25 times the largest count of the step before, for codecs that feed back what exceeds it
};

namespace detail {

constexpr char const* gather_name(gather how) {
  switch (how) {
    case gather::exact: return "exact";
    case gather::predicted: return "predicted";
    default: return "padded";
  }
}

/// A graph replays the sizes that it was captured with. Executors that cannot be captured do not say.
template <class E>
void require_no_capture(E const& exec, gather how) {
  if constexpr (requires { exec.is_capturing(); }) {
    require(!exec.is_capturing(), "gradient_exchange::begin: gather::", gather_name(how),
            " must not be captured in a graph, because sizes change in each step: use gather::padded");
  }
}

/// A count in a payload, and the most that it may be.
struct count_place {
  std::size_t at;
  std::uint64_t most;
};

/// Finds the counts of a payload.
struct count_finder final : piece_visitor {
  std::vector<count_place> found;

  std::uint32_t count(std::size_t at, std::uint64_t most) override {
    found.push_back({at, most});
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

/// Tells f the pieces of a payload whose counts are known.
template <class F>
struct piece_walk final : piece_visitor {
  piece_walk(std::uint32_t const* c, F const& to) : counts(c), f(to) {}

  std::uint32_t count(std::size_t, std::uint64_t) override { return *counts++; }
  void piece(payload_piece const& used) override { f(used); }

  std::uint32_t const* counts;
  F const& f;
};

}  // namespace detail
}  // namespace pith::inline v0
