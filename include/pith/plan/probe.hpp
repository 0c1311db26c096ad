// pith/plan/probe.hpp — which codec is the fastest here: measured on this network, by these ranks, with these gradients.
#pragma once

#include <pith/comm/self.hpp>
#include <pith/exchange/detail/agreement.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/plan/cost_model.hpp>

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

namespace pith::inline v0 {

/// A policy, or one codec for all tensors, by the name that a table shows.
template <class In, class E>
struct probe_candidate {
  std::string name;
  std::function<any_codec<In, E>(tensor_spec const&)> policy;

  template <codec_policy_for<In, E> Policy>
  probe_candidate(std::string called, Policy chosen) : name(std::move(called)), policy(std::move(chosen)) {}
  probe_candidate(std::string called, any_codec<In, E> codec)
      : name(std::move(called)), policy([codec = std::move(codec)](tensor_spec const&) { return codec; }) {}
};

struct probe_options {
  unsigned rounds = 5;               ///< of each measurement, of which the median counts
  unsigned most_segments = 1;        ///< as plan_exchange has them
  double hidden_seconds = 0;         ///< of backward, under which an exchange travels and codecs work
  double enough_seconds = 20e-3;     ///< of a sum, whose size is large enough to tell the rate of the links
  std::size_t most_bytes = 1 << 24;  ///< of such a sum
};

/// What a candidate sends and takes in a step, on the slowest rank.
struct probed_codec {
  std::string name;
  double wire_bytes = 0;
  double error = 0;  ///< |g - C(g)| / |g|, of the rank on which it is largest
  double encode_seconds = 0, decode_seconds = 0;
  double wire_seconds = 0;  ///< by the model
  double step_seconds = 0;  ///< by the model, at the best number of segments; at least hidden_seconds
};

/// The same on all ranks. The first candidate is dense: `identity`, no compression.
struct probe_result {
  network net;
  std::vector<probed_codec> candidates;
  std::size_t choice = 0;

  probed_codec const& best() const { return candidates[choice]; }

  /// In Markdown; the choice is marked.
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

/// The largest number of all ranks, in each place.
template <class Comm, executor E>
std::vector<double> largest_of_ranks(E const& exec, Comm& comm, std::vector<double> mine) {
  auto const all = gather_on_host(exec, comm, mine);
  for (std::size_t i = 0; i < all.size(); ++i) mine[i % mine.size()] = std::fmax(mine[i % mine.size()], all[i]);
  return mine;
}

/// What a sum of so many bytes takes on the slowest rank.
template <class Comm, executor E>
measured_cost sum_cost(E const& exec, Comm& comm, std::size_t bytes, unsigned rounds) {
  auto const values = buffer<float, E>(exec, bytes / sizeof(float));
  exec.fill(values.data(), std::byte{}, values.size_bytes());
  auto times = std::vector<double>();
  for (unsigned i = 0; i <= rounds; ++i) {
    times.push_back(seconds_of([&] {
      comm.all_reduce(exec, values.view(), reduction::sum).wait(exec);
      exec.wait();
    }));
  }
  times.erase(times.begin());  // in which connections are made
  return {static_cast<double>(bytes), largest_of_ranks(exec, comm, {median_of(times)})[0]};
}

/// The line through a sum of 16 KiB and one that takes long enough.
template <class Comm, executor E>
network measure_network(E const& exec, Comm& comm, probe_options const& o) {
  if (comm.size() == 1) return {};
  constexpr std::size_t least = std::size_t{1} << 14;
  auto const small = sum_cost(exec, comm, least, o.rounds);
  auto bytes = least * 4;
  auto large = sum_cost(exec, comm, bytes, o.rounds);
  while (large.seconds < o.enough_seconds && bytes < o.most_bytes) large = sum_cost(exec, comm, bytes *= 4, o.rounds);
  return fit_network(comm.size(), small, large);
}

/// What a candidate's codecs lose and take on this rank: encoding and decoding of one rank's payloads.
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

/// The model's candidate: what one rank's payloads took, an element's share of it for each element of all ranks'.
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
  row.step_seconds = plan_exchange(net, {c}, o.most_segments, o.hidden_seconds).seconds;
  return row;
}

/// The number that rank 0 has chosen.
template <class Comm, executor E>
std::size_t choice_of_first(E const& exec, Comm& comm, std::size_t mine, std::size_t candidates) {
  auto const chosen = gather_on_host(exec, comm, std::vector(1, std::uint64_t{mine}))[0];
  if (chosen >= candidates)
    throw communication_error(
        sentence("probe: rank 0 chose candidate ", chosen, " of ", candidates, ": the message was damaged in transit"));
  return chosen;
}

}  // namespace detail

/// Measures sums of a few sizes over `comm`, and what each candidate's codecs take and lose of this rank's gradients, all
/// tensors one after another; the numbers of the slowest rank lead to one choice on all ranks, by the cost model. Dense
/// floats come first, so that they are chosen where nothing is faster.
///
///   auto const found = pith::probe<float>(pith::seq, comm, tensors, gradients, {{"top_k", pith::matrices(codec)}});
///   std::fputs(found.table().c_str(), stdout);
///
///   requires    a host executor; equal tensors, candidates and options on all ranks, which call it between steps;
///               codecs that one rank can run by itself: not those with groups of ranks. rounds of at least 1
///               (std::invalid_argument)
///   complexity  sums of 16 KiB and more until one takes 20 ms, and `rounds` + 1 encodings and decodings of all tensors
///               for each candidate; memory of an exchange of one rank
///   errors      communication_error where a message was damaged
template <real In, executor E, class Comm>
probe_result probe(E const& exec, Comm& comm, std::vector<tensor_spec> const& tensors, span_on<E, In const> gradients,
                   std::vector<probe_candidate<In, E>> candidates, probe_options const& o = {}) {
  static_assert(host_executor<E>,
                "pith: probe needs a host executor: what codecs take on a device is not known to its host");
  detail::require(o.rounds > 0, "probe: rounds must be at least 1, got 0");
  candidates.insert(candidates.begin(), {"identity", any_codec<In, E>(identity())});
  auto found = probe_result{detail::measure_network(exec, comm, o), {}, 0};
  auto all = std::vector<exchange_candidate>();
  for (auto const& c : candidates) {
    auto const mine = detail::probe_codec<In>(exec, tensors, gradients, c, o.rounds);
    auto const worst = detail::largest_of_ranks(exec, comm, {mine.error, mine.encode, mine.decode});
    all.push_back(detail::modelled<In>(exec, tensors, c, comm.size(), {worst[0], worst[1], worst[2]}));
    found.candidates.push_back(detail::row_of(found.net, all.back(), worst[0], o));
  }
  auto const choice = plan_exchange(found.net, all, o.most_segments, o.hidden_seconds).candidate;
  found.choice = detail::choice_of_first(exec, comm, choice, all.size());
  return found;
}

}  // namespace pith::inline v0
