// pith/cost_model/probe.hpp — the fastest codec for given gradients, measured on the ranks and the network of the job.
#pragma once

#include <pith/comm/self.hpp>
#include <pith/cost_model/cost_model.hpp>
#include <pith/exchange/detail/agreement.hpp>
#include <pith/exchange/gradient_exchange.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A candidate for probe(): a codec policy, or one codec for all tensors. `name` is the candidate's name in the table.
template <class In, class E>
struct probe_candidate {
  std::string name;
  std::function<any_codec<In, E>(tensor_spec const&)> policy;

  template <detail::codec_policy_for<In, E> Policy>
  probe_candidate(std::string called, Policy chosen) : name(std::move(called)), policy(std::move(chosen)) {}
  probe_candidate(std::string called, any_codec<In, E> codec)
      : name(std::move(called)), policy([codec = std::move(codec)](tensor_spec const&) { return codec; }) {}
};

struct probe_options {
  unsigned rounds = 5;               ///< repetitions of each measurement; the result is the median
  unsigned max_segments = 1;         ///< the largest number of segments, as in plan_exchange
  double hidden_seconds = 0;         ///< the seconds of the backward pass that overlap the exchange
  double enough_seconds = 20e-3;     ///< all-reduces of growing size are measured until one takes this time
  std::size_t max_bytes = 1 << 24;   ///< the size does not grow further after an all-reduce of this size
};

/// A candidate's bytes, error and seconds for one step. The error and the seconds are maxima over the ranks.
struct probed_codec {
  std::string name;
  double wire_bytes = 0;
  double error = 0;  ///< |g - D(C(g))| / |g|
  double encode_seconds = 0, decode_seconds = 0;
  double wire_seconds = 0;  ///< predicted by the cost model
  double step_seconds = 0;  ///< predicted, for the best number of segments; at least hidden_seconds
};

/// The result of probe(), equal on all ranks. The first candidate is `identity`, which sends uncompressed values.
struct probe_result {
  network net;
  std::vector<probed_codec> candidates;
  std::size_t choice = 0;

  probed_codec const& best() const { return candidates[choice]; }

  /// The candidates as a Markdown table in which the choice is marked.
  std::string table() const {
    auto lines = std::string(
        "| codec | bytes sent per rank | error | encode, ms | decode, ms | wire, ms | step, ms | |\n"
        "|---|---|---|---|---|---|---|---|\n");
    for (std::size_t i = 0; i < candidates.size(); ++i) lines += row(candidates[i], i == choice ? "choice" : "");
    return lines;
  }

 private:
  static std::string row(probed_codec const& c, char const* mark) {
    auto const ms = [](double seconds) { return rounded(seconds * 1e3); };
    return detail::text("| `", c.name, "` | ", rounded(c.wire_bytes), " | ", rounded(c.error), " | ",
                        ms(c.encode_seconds), " | ", ms(c.decode_seconds), " | ", ms(c.wire_seconds), " | ",
                        ms(c.step_seconds), " | ", mark, " |\n");
  }
  static std::string rounded(double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.3g", value);
    return digits;
  }
};

namespace detail {

template <class F>
double seconds_of(F const& f) {
  auto const begun = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

inline double median_of(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The elementwise maximum over the ranks.
template <class Comm, executor E>
std::vector<double> largest_of_ranks(E const& exec, Comm& comm, std::vector<double> mine) {
  auto const all = gather_on_host(exec, comm, mine);
  for (std::size_t i = 0; i < all.size(); ++i) mine[i % mine.size()] = std::fmax(mine[i % mine.size()], all[i]);
  return mine;
}

/// The median seconds of an all-reduce of `bytes` bytes, as a maximum over the ranks.
template <class Comm, executor E>
measured_cost sum_cost(E const& exec, Comm& comm, std::size_t bytes, unsigned rounds) {
  auto values = lent(buffer<float, E>(exec, bytes / sizeof(float)));
  exec.fill((*values).data(), std::byte{}, (*values).size_bytes());
  auto times = std::vector<double>();
  for (unsigned i = 0; i <= rounds; ++i) {
    times.push_back(seconds_of([&] {
      values.wait(exec, [&] { return comm.all_reduce(exec, (*values).view(), reduction::sum); });
      exec.wait();
    }));
  }
  times.erase(times.begin());  // the first all-reduce also sets up connections
  return {static_cast<double>(bytes), largest_of_ranks(exec, comm, {median_of(times)})[0]};
}

/// Fits the network to an all-reduce of 16 KiB and to the first larger all-reduce that takes `enough_seconds` or has
/// `max_bytes` bytes.
template <class Comm, executor E>
network measure_network(E const& exec, Comm& comm, probe_options const& o) {
  if (comm.size() == 1) return {};
  constexpr std::size_t least = std::size_t{1} << 14;
  auto const small = sum_cost(exec, comm, least, o.rounds);
  auto bytes = least * 4;
  auto large = sum_cost(exec, comm, bytes, o.rounds);
  while (large.seconds < o.enough_seconds && bytes < o.max_bytes) large = sum_cost(exec, comm, bytes *= 4, o.rounds);
  return fit_network(comm.size(), small, large);
}

/// A candidate's error and codec seconds, measured on this rank alone.
struct codec_probe {
  double error = 0, encode = 0, decode = 0;
};
template <real In, executor E>
codec_probe probe_codec(E const& exec, std::vector<tensor_spec> const& tensors, span_on<E, In const> gradients,
                        probe_candidate<In, E> const& candidate, unsigned rounds) {
  auto self = self_communicator();
  auto alone = gradient_exchange<In, E, self_communicator>(exec, self, tensors, candidate.policy);
  auto const copy = buffer<In, E>(exec, gradients.size());
  auto encode = std::vector<double>(), decode = encode;
  alone.measure_errors(gradients);
  for (unsigned i = 0; i < rounds; ++i) {
    exec.copy(copy.data(), gradients.data(), copy.size_bytes());
    alone.all_reduce_mean(copy.view());
    auto const taken = alone.report().total;
    encode.push_back(taken.encode_seconds);
    decode.push_back(taken.decode_seconds);
  }
  return {alone.report().total.error(), median_of(encode), median_of(decode)};
}

/// Makes the candidate for the cost model. The seconds per element were measured in a single-rank exchange. The numbers
/// of elements are those of an exchange over `ranks` ranks.
template <real In, executor E>
exchange_candidate modelled(E const& exec, std::vector<tensor_spec> const& tensors,
                            probe_candidate<In, E> const& candidate, unsigned ranks, codec_probe const& taken) {
  auto const alone = work_of<In>(exec, tensors, candidate.policy, 1);
  auto const each = [](double seconds, double elements) { return elements > 0 ? seconds / elements : 0; };
  return {candidate.name,
          work_of<In>(exec, tensors, candidate.policy, ranks),
          {{0, each(taken.encode, alone.encoded)}, {0, each(taken.decode, alone.decoded)}}};
}

inline probed_codec row_of(network const& net, exchange_candidate const& c, double error, probe_options const& o) {
  auto row = probed_codec{c.name, 0, error};
  for (auto const& sent : c.work.sent) row.wire_bytes += sent.count * sent.bytes;
  row.encode_seconds = c.cost.encode(c.work.encoded);
  row.decode_seconds = c.cost.decode(c.work.decoded);
  row.wire_seconds = wire_seconds(net, c);
  row.step_seconds = plan_exchange(net, {c}, o.max_segments, o.hidden_seconds).seconds;
  return row;
}

/// The index that rank 0 chose, on all ranks.
template <class Comm, executor E>
std::size_t choice_of_first(E const& exec, Comm& comm, std::size_t mine, std::size_t candidates) {
  auto const chosen = gather_on_host(exec, comm, std::vector(1, std::uint64_t{mine}))[0];
  if (chosen >= candidates)
    throw communication_error(
        sentence("probe: rank 0 chose candidate ", chosen, " of ", candidates, ": the message was damaged in transit"));
  return chosen;
}

}  // namespace detail

/// Predicts the seconds of a step with each candidate, and chooses the fastest candidate. Measures all-reduces over
/// `comm`, and each candidate's seconds and error on this rank's gradients. `gradients` contains all tensors one after
/// another. The cost model uses the seconds of the slowest rank, and all ranks get the same choice. probe() adds the
/// candidate `identity`, which sends uncompressed values, in first place, so `identity` is chosen among equally fast
/// candidates.
///
///   auto const found = pith::probe<float>(pith::seq, comm, tensors, gradients, {{"top_k", pith::matrices(codec)}});
///   std::fputs(found.table().c_str(), stdout);
///
///   requires    a host executor. All ranks make the call, between steps, with equal tensors, candidates and options.
///               All codecs can run on a single rank, without subgroups; rounds >= 1 (std::invalid_argument)
///   complexity  repeats all-reduces of growing size, from 16 KiB, until one takes enough_seconds or has max_bytes
///               bytes. Encodes and decodes all tensors `rounds` + 1 times per candidate, and allocates a single-rank
///               exchange per candidate
///   errors      communication_error if a message was damaged. The gradients never change
template <real In, executor E, class Comm>
probe_result probe(E const& exec, Comm& comm, std::vector<tensor_spec> const& tensors, span_on<E, In const> gradients,
                   std::vector<probe_candidate<In, E>> candidates, probe_options const& o = {}) {
  static_assert(detail::host_executor<E>,
                "pith: probe needs a host executor: a host cannot time the codecs of a device");
  detail::require(o.rounds > 0, "probe: rounds must be at least 1, got 0");
  detail::require_cost("probe", "hidden_seconds", o.hidden_seconds);
  detail::require_cost("probe", "enough_seconds", o.enough_seconds);
  candidates.insert(candidates.begin(), {"identity", any_codec<In, E>(identity())});
  auto found = probe_result{detail::measure_network(exec, comm, o), {}, 0};
  auto all = std::vector<exchange_candidate>();
  for (auto const& c : candidates) {
    auto const mine = detail::probe_codec<In>(exec, tensors, gradients, c, o.rounds);
    auto const worst = detail::largest_of_ranks(exec, comm, {mine.error, mine.encode, mine.decode});
    all.push_back(detail::modelled<In>(exec, tensors, c, comm.size(), {worst[0], worst[1], worst[2]}));
    found.candidates.push_back(detail::row_of(found.net, all.back(), worst[0], o));
  }
  auto const choice = plan_exchange(found.net, all, o.max_segments, o.hidden_seconds).candidate;
  found.choice = detail::choice_of_first(exec, comm, choice, all.size());
  return found;
}

}}  // namespace pith::PITH_ABI
