// benchmarks/grace/throughput.hpp — steps a second over link rates (GRACE, figures 9 and 10), predicted.
#pragma once

#include "methods.hpp"

#include "../../examples/train/prediction.hpp"

#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace grace {

inline constexpr double link_rates[] = {0.1, 0.2, 0.5, 1, 2, 5, 10, 25, 50, 100};  // Gbit/s

struct throughput_options {
  std::vector<std::string> methods;
  unsigned ranks = 8;
  double compute = 0.1;  // seconds
  std::size_t steps = 5;
};

/// Gradients of a training: normal values. A threshold of 0.01 selects 1 % of them.
inline std::vector<float> small_normal_values(std::size_t n) {
  auto x = bench::normal_values<float>(n);
  for (auto& v : x) v *= 0.01f / 2.5758f;
  return x;
}

/// A step with the tensors of a model: encoding, and decoding of all ranks' payloads, are measured on one thread. The
/// options give the time of computing. Each step is a first step, because the residual of a constant gradient would
/// grow beyond every threshold.
inline train::prediction predict(method const& m, std::vector<pith::tensor_spec> const& tensors,
                                 throughput_options const& o) {
  auto comm = train::stopwatch_communicator(train::echo_communicator(o.ranks));
  auto exchange = pith::gradient_exchange<float, pith::seq_executor, decltype(comm)>(
      pith::seq, comm, tensors, pith::matrices(codec_of(m.codec)),
      pith::exchange_options{.seed = 1, .gather_mode = pith::gather::exact});
  auto const values = small_normal_values(exchange.size());
  auto gradient = values;
  auto const first = exchange.export_state();
  auto alone = train::median_of(o.steps, [&] {
    gradient = values;
    exchange.import_state(first);
    return comm.of([&] { exchange.all_reduce_mean(gradient); });
  });
  alone.compute = o.compute;
  return {o.ranks, {exchange.traffic().gathered, exchange.traffic().summed}, alone};
}

/// One row per method and link rate. The dense methods are always measured.
inline void write_throughput(std::FILE* out, std::vector<pith::tensor_spec> const& tensors,
                             throughput_options const& o) {
  fmt::print(out,
             "method,family,codec,ranks,compute_ms,encode_ms,decode_ms,sent_bytes,gbit,over_float32,over_bfloat16\n");
  auto const float32 = predict(dense_float, tensors, o), bfloat16 = predict(dense_bfloat16, tensors, o);
  for (auto const& m : methods) {
    if (!is_wanted(o.methods, m.name)) continue;
    auto const p = &m == &dense_float ? float32 : &m == &dense_bfloat16 ? bfloat16 : predict(m, tensors, o);
    for (auto const rate : link_rates) {
      fmt::print(out, "{},{},\"{}\",{},{:g},{:.2f},{:.2f},{:.0f},{:g},{:.4g},{:.4g}\n", m.name, m.family, m.codec,
                 p.ranks, p.alone.compute * 1e3, p.alone.encode * 1e3, p.alone.decode * 1e3, p.sent(), rate,
                 p.throughput_over(float32, rate), p.throughput_over(bfloat16, rate));
    }
    std::fflush(out);
  }
}

}  // namespace grace
