// benchmarks/grace/quality.hpp — final accuracy, data volume and throughput of trainings (GRACE, figures 6 and 7).
#pragma once

#include "methods.hpp"

#include "../../examples/train/all.hpp"
#include "../../examples/train/report.hpp"

#include <fmt/format.h>
#include <range/v3/algorithm/count_if.hpp>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace grace {

/// The bytes that a rank passes to its communicator, counted as in GRACE.
inline double volume(train::trial const& t) { return static_cast<double>(t.predicted.bytes.total()); }

/// One row per method: `volume` is bytes passed to the communicator, and `over_float32_at_R` is steps per second at R
/// Gbit/s, both relative to dense float, which is always trained.
inline void write_quality(std::FILE* out, std::FILE* log, std::vector<std::string> const& names,
                          train::options const& o, train::split const& data) {
  fmt::print(out, "method,family,codec,model,ranks,seeds,accuracy,deviation,volume");
  for (auto const rate : train::rates) fmt::print(out, ",over_float32_at_{}", rate);
  fmt::print(out, "\n");
  auto const is_trained = [&](method const& m) { return &m == &dense_float || is_wanted(names, m.name); };
  auto const trained = ranges::count_if(methods, is_trained);
  auto shown = train::progress(log, static_cast<std::size_t>(trained) * o.number_of_seeds());
  auto const dense = train::train_by(dense_float, o, data, shown);
  for (auto const& m : methods) {
    if (!is_wanted(names, m.name)) continue;
    auto const t = &m == &dense_float ? dense : train::train_by(m, o, data, shown);
    fmt::print(out, "{},{},\"{}\",{},{},{},{:.5f},{:.5f},{:.4g}", m.name, m.family, m.codec, o.model, o.ranks,
               t.runs.size(), t.accuracy(), train::standard_deviation(t.accuracies()), volume(t) / volume(dense));
    for (auto const rate : train::rates) fmt::print(out, ",{:.4g}", t.predicted.throughput_over(dense.predicted, rate));
    fmt::print(out, "\n");
    std::fflush(out);
  }
}

}  // namespace grace
