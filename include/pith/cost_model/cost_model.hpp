// pith/cost_model/cost_model.hpp — predicted seconds of an exchange, and the fastest codec and number of segments.
#pragma once

#include <pith/core/error.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/exchange_plan.hpp>
#include <pith/exchange/messages.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A linear cost: n units take `fixed + each x n` seconds. Units are bytes for a link, and elements for a codec.
struct linear_cost {
  double fixed = 0, each = 0;

  constexpr double operator()(double n) const { return fixed + each * n; }
};

/// A measurement: n units took `seconds`.
struct measured_cost {
  double n = 0, seconds = 0;
};

namespace detail {

inline void require_cost(char const* call, char const* what, double cost) {
  require(0 <= cost && cost < HUGE_VAL, call, ": ", what, " must be finite and at least 0, got ", cost);
}
inline void require_costs(char const* call, char const* what, linear_cost const& costs) {
  require_cost(call, what, costs.fixed);
  require_cost(call, what, costs.each);
}
inline void require_growth(char const* call, measured_cost small, measured_cost large) {
  require(small.n >= 0 && small.n < large.n, call, ": small.n must be at least 0 and below large.n, got ", small.n,
          " and ", large.n);
  require_cost(call, "large.n", large.n);
  require_cost(call, "small.seconds", small.seconds);
  require_cost(call, "large.seconds", large.seconds);
}

}  // namespace detail

/// The linear cost that fits the measurements `small` and `large`, where `small` has fewer units. If noise makes
/// `fixed` or `each` negative, the function sets it to 0 and fits the other coefficient to `large` alone.
///
///   requires    0 <= small.n < large.n, and finite seconds of at least 0 (std::invalid_argument)
inline linear_cost fit_cost(measured_cost small, measured_cost large) {
  detail::require_growth("fit_cost", small, large);
  auto const each = (large.seconds - small.seconds) / (large.n - small.n);
  if (each < 0) return {large.seconds, 0};
  auto const fixed = small.seconds - each * small.n;
  if (fixed < 0) return {0, large.seconds / large.n};
  return {fixed, each};
}

/// A network in which each rank has its own link, so that all ranks can send and receive at the same time. A message of
/// b bytes takes alpha + beta b seconds, where alpha is `message.fixed` and beta is `message.each`. If ranks_per_node >
/// 1, that many consecutive ranks form a node, and `message_in_node` is the cost of a message within a node.
struct network {
  unsigned ranks = 1;
  linear_cost message;
  unsigned ranks_per_node = 1;
  linear_cost message_in_node = {};

  /// The cost of a message within a subgroup.
  constexpr linear_cost const& message_among(subgroup const& g) const {
    auto const is_in_node = !g.is_all() && ranks_per_node % (g.size * g.stride) == 0;
    return is_in_node ? message_in_node : message;
  }
};

/// Fits the network to two measured all-reduces of different sizes. In a ring all-reduce of b bytes over P ranks, each
/// rank sends 2 (P - 1) successive messages of b / P bytes. So the all-reduce takes 2 (P - 1) (alpha + beta b / P)
/// seconds.
inline network fit_network(unsigned ranks, measured_cost small, measured_cost large) {
  detail::require(ranks > 1, "fit_network: ranks must be at least 2, got ", ranks);
  detail::require_growth("fit_network", small, large);
  auto const steps = 2.0 * (ranks - 1);
  auto const message = [&](measured_cost sum) { return measured_cost{sum.n / ranks, sum.seconds / steps}; };
  return {ranks, fit_cost(message(small), message(large))};
}

/// A copy of the network with `factor` times the bandwidth of `message`. `message_in_node` is unchanged.
inline network faster(network net, double factor) {
  detail::require(0 < factor && factor < HUGE_VAL, "faster: factor must be finite and above 0, got ", factor);
  net.message.each /= factor;
  return net;
}

/// The cost of a codec on one rank: `fixed` seconds per tensor, plus `each` seconds per encoded or decoded element.
struct codec_cost {
  linear_cost encode, decode;
};

/// The work of one rank in one step: the numbers of tensors, encoded elements and decoded elements, and the sent
/// messages.
struct exchange_work {
  double tensors = 0, encoded = 0, decoded = 0;
  std::vector<messages> sent = {};
};

namespace detail {

/// Adds the encoded and decoded elements of a tensor's transfer to the work. The number of encoded elements is
/// proportional to the bytes that the rank produces. The number of decoded elements is proportional to the bytes that
/// the rank receives.
inline void add_elements(exchange_work& work, transfer const& moves, unsigned all, double elements_a_byte) {
  auto const ranks = moves.among.ranks(all);
  auto const bytes = static_cast<double>(moves.bytes());
  work.encoded += bytes * pieces(moves.how, ranks) * elements_a_byte;
  work.decoded += bytes * std::max(received_pieces(moves.how, ranks), 1u) * elements_a_byte;
}

}  // namespace detail

/// The work of one rank in a step that exchanges all tensors in one tensor bucket. For n elements and P ranks, an
/// all-gather encodes n elements and decodes P n elements. `two_shot` encodes n + n / P elements and decodes 2 n
/// elements. An all-reduce encodes n elements and decodes n elements. For `ring` and `g_top_k`, the numbers are too large
/// by up to the number of rounds: later rounds forward payloads, or merge entries.
template <real In, executor E, detail::codec_policy_for<In, E> Policy>
exchange_work work_of(E const&, std::vector<tensor_spec> const& tensors, Policy const& policy, unsigned ranks) {
  auto work = exchange_work();
  auto plan = detail::exchange_plan();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto const codec = static_cast<any_codec<In, E>>(policy(tensors[i]));
    auto const& dims = tensors[i].dims;
    auto const payload = static_cast<double>(payload_bytes<In>(codec, dims));
    work.tensors += 1;
    for (unsigned r = 0; r < codec.rounds(dims, ranks); ++r) {
      auto const moves = detail::transfer_of<In>(codec, r, dims, ranks);
      if (payload > 0) detail::add_elements(work, moves, ranks, static_cast<double>(dims.n) / payload);
      plan.add(i, r, moves, ranks);
    }
  }
  for (auto const& round : plan.rounds()) {
    for (auto const& g : round) {
      work.sent.push_back(detail::messages_of(g.how, static_cast<double>(g.bytes), g.ranks, g.among));
    }
  }
  return work;
}

/// A measured step: the work of a rank, and the seconds of encoding and decoding.
struct measured_codec {
  exchange_work work;
  double encode_seconds = 0, decode_seconds = 0;
};
/// Fits a codec's cost per tensor and per element to the measured steps `small` and `large`, where `small` has fewer
/// elements per tensor.
inline codec_cost fit_codec(measured_codec const& small, measured_codec const& large) {
  auto const fit = [&](double exchange_work::*n, double measured_codec::*seconds) {
    return fit_cost({small.work.*n / small.work.tensors, small.*seconds / small.work.tensors},
                    {large.work.*n / large.work.tensors, large.*seconds / large.work.tensors});
  };
  return {fit(&exchange_work::encoded, &measured_codec::encode_seconds),
          fit(&exchange_work::decoded, &measured_codec::decode_seconds)};
}

/// A candidate for plan_exchange: a codec's name, the work of a rank in a step, and the codec's cost.
struct exchange_candidate {
  std::string name;
  exchange_work work;
  codec_cost cost = {};
};

/// A step may be divided into `segments` equal segments. A segment consists of one or more tensors, or of a piece of a
/// tensor. Returns the seconds that encoding and decoding of one segment take.
inline double codec_seconds(exchange_candidate const& c, unsigned segments = 1) {
  auto const calls = std::max(c.work.tensors / segments, std::min(c.work.tensors, 1.0));
  return calls * (c.cost.encode.fixed + c.cost.decode.fixed) +
         (c.cost.encode.each * c.work.encoded + c.cost.decode.each * c.work.decoded) / segments;
}
/// The seconds of the transfer of one segment. A segment sends as many messages as an undivided step, and each message
/// is `segments` times smaller.
inline double wire_seconds(network const& net, exchange_candidate const& c, unsigned segments = 1) {
  double seconds = 0;
  for (auto const& sent : c.work.sent) seconds += sent.count * net.message_among(sent.among)(sent.bytes / segments);
  return seconds;
}

/// The seconds of a step. During the transfer of a segment, the previous segment is decoded and the next segment is
/// encoded. So each segment after the first adds the maximum of its codec seconds and its transfer seconds. Only the
/// first encoding and the last decoding overlap no transfer.
inline double step_seconds(network const& net, exchange_candidate const& c, unsigned segments = 1) {
  auto const codec = codec_seconds(c, segments), wire = wire_seconds(net, c, segments);
  return codec + wire + (segments - 1) * std::max(codec, wire);
}

/// The index of a candidate, its best number of segments, and the predicted seconds of a step.
struct exchange_choice {
  std::size_t candidate = 0;
  unsigned segments = 1;
  double seconds = 0;
};

/// Chooses the fastest candidate and its number of segments, which is a power of two. Up to `hidden_seconds` of an
/// exchange overlap the backward pass, so all candidates that take at most `hidden_seconds` count as equally fast. Of
/// equally fast candidates, the function chooses the first in the list, with the smallest number of segments. So list
/// lossless candidates before lossy candidates.
///
///   requires    at least one candidate and one segment, and costs that are finite and at least 0
///               (std::invalid_argument). Pass max_segments = 1 if codec and transfer do not overlap
///   complexity  does not measure, send or allocate. Equal arguments give equal choices on all ranks
inline exchange_choice plan_exchange(network const& net, std::vector<exchange_candidate> const& candidates,
                                     unsigned max_segments = 1, double hidden_seconds = 0) {
  detail::require(!candidates.empty(), "plan_exchange: candidates must not be empty");
  detail::require(max_segments > 0, "plan_exchange: max_segments must be at least 1, got 0");
  detail::require_cost("plan_exchange", "hidden_seconds", hidden_seconds);
  detail::require_costs("plan_exchange", "a message", net.message);
  detail::require_costs("plan_exchange", "a message in a node", net.message_in_node);
  for (auto const& c : candidates) {
    detail::require_costs("plan_exchange", "encode", c.cost.encode);
    detail::require_costs("plan_exchange", "decode", c.cost.decode);
  }
  auto const seconds_of = [&](exchange_candidate const& c, unsigned segments) {
    auto const seconds = step_seconds(net, c, segments);
    detail::require_cost("plan_exchange", "the predicted seconds of a candidate", seconds);
    return std::max(seconds, hidden_seconds);
  };
  auto best = exchange_choice{0, 1, seconds_of(candidates[0], 1)};
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    for (std::uint64_t segments = 1; segments <= max_segments; segments *= 2) {
      auto const seconds = seconds_of(candidates[i], static_cast<unsigned>(segments));
      if (seconds < best.seconds) best = {i, static_cast<unsigned>(segments), seconds};
    }
  }
  return best;
}

}}  // namespace pith::PITH_ABI
