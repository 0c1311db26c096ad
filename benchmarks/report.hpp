// benchmarks/report.hpp — prints measured rows through Google Benchmark, as text or JSON.
#pragma once

#include "yardstick.hpp"

#include <pith/exec/isa.hpp>

#include <benchmark/benchmark.h>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/drop.hpp>
#include <range/v3/view/drop_while.hpp>
#include <range/v3/view/getlines.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
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

/// The text after the colon and blanks.
inline std::string value_of(std::string const& line) {
  auto const is_blank = [](char c) { return c == ' ' || c == '\t'; };
  auto const colon = static_cast<std::ptrdiff_t>(line.find(':'));
  return line | ranges::views::drop(colon + 1) | ranges::views::drop_while(is_blank) | ranges::to<std::string>();
}

/// The value in the first line of a file with this prefix.
inline std::string field_of(char const* path, std::string_view begin) {
  auto file = std::ifstream(path);
  for (auto const& line : ranges::getlines(file)) {
    if (line.starts_with(begin)) return value_of(line);
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
