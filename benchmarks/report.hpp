// benchmarks/report.hpp — prints measured rows through Google Benchmark, as text or JSON.
#pragma once

#include "yardstick.hpp"

#include <pith/exec/isa.hpp>

#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

using counter_list = std::vector<std::pair<char const*, double>>;

struct row {
  std::string name;
  double seconds;
  counter_list counters;
};

inline void print(row const& r) {
  auto const repeat = [r](benchmark::State& state) {
    for (auto _ : state) state.SetIterationTime(r.seconds);
    for (auto const& [name, value] : r.counters) state.counters[name] = value;
  };
  benchmark::RegisterBenchmark(r.name.c_str(), repeat)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
}
inline void print(std::vector<row> const& rows) {
  for (auto const& r : rows) print(r);
}

/// What follows the colon in the first line of a file that begins so.
inline std::string field_of(char const* path, std::string_view begin) {
  auto file = std::ifstream(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(begin)) continue;
    auto const value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "unknown";
}

/// The memory of this process that lies in 2 MiB pages.
inline std::string huge_pages() { return field_of("/proc/self/smaps_rollup", "AnonHugePages:"); }

/// Runs a program that reads its options and Google Benchmark's, measures, and prints.
template <class Measure>
int command(CLI::App& app, int argc, char** argv, Measure const& measure) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("cpu", field_of("/proc/cpuinfo", "model name"));
  benchmark::AddCustomContext("instructions", pith::isa_name(pith::best_isa()));
  benchmark::AddCustomContext("compiler", PITH_COMPILER);
  app.set_help_flag("-h", "print this; --help prints the options of Google Benchmark");
  try {
    app.parse(argc, argv);
    measure();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
  }
  return 1;
}

}  // namespace bench
