// benchmarks/network/network_report.cpp — the tables of docs/network.md, and their thresholds.
//
//   network_report TABLE.csv               prints them
//   network_report TABLE.csv --into PAGE   puts them into a page
#include "../page.hpp"
#include "regret.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <range/v3/action/sort.hpp>
#include <range/v3/algorithm/contains.hpp>
#include <range/v3/algorithm/count_if.hpp>
#include <range/v3/algorithm/find_if.hpp>
#include <range/v3/algorithm/max.hpp>
#include <range/v3/numeric/accumulate.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/filter.hpp>
#include <range/v3/view/transform.hpp>
#include <range/v3/view/zip.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace network;
using bench::code, bench::heading;

/// Seconds: ten times the burst that a token bucket passes at full speed.
constexpr double shortest = 10e-3;

/// A quantity of a row, such as a ratio, and the most that it may be.
struct threshold {
  std::string what;
  std::function<bool(row const&)> concerns;
  std::function<double(row const&)> value;
  double most;
};

std::vector<double> values_of(threshold const& b, std::vector<row> const& rows, double rate) {
  auto const counts = [&](row const& r) { return r.rate == rate && b.concerns(r); };
  return rows | ranges::views::filter(counts) | ranges::views::transform(b.value) | ranges::to<std::vector>() |
         ranges::actions::sort;
}

std::vector<double> rates_of(std::vector<row> const& rows) {
  auto rates = std::vector<double>();
  for (auto const& r : rows) {
    if (!ranges::contains(rates, r.rate)) rates.push_back(r.rate);
  }
  return rates;
}

void append(std::string& text, std::string const& line) { text += line + "\n"; }

std::string verdict(std::size_t held, std::size_t all) {
  return held == all ? fmt::format("pass, {} of {}", held, all) : fmt::format("**fail**, {} of {}", held, all);
}

/// The median, the worst, and how many are within the threshold, at each rate.
std::string lines_of(threshold const& b, std::vector<row> const& rows) {
  auto text = std::string();
  for (auto const rate : rates_of(rows)) {
    auto const values = values_of(b, rows, rate);
    if (values.empty()) continue;
    auto const held = static_cast<std::size_t>(ranges::count_if(values, [&](double v) { return v <= b.most; }));
    append(text, fmt::format("| {} | {:g} | {:.3f} | {:.3f} | {:g} | {} |", b.what, rate, values[values.size() / 2],
                             values.back(), b.most, verdict(held, values.size())));
  }
  return text;
}

/// Bytes on the interface over the reported bytes, relative to the same ratio for the plain ring of dense float.
double bytes_error(std::vector<row> const& rows, row const& r) {
  auto const ring = ranges::find_if(rows, [&](row const& x) { return same_place(x, r) && x.codec == "identity"; });
  return std::abs(r.sent / r.reported / (ring->plain_sent / ring->reported) - 1);
}

std::string thresholds(std::vector<row> const& rows, oracle const& model) {
  auto const any = [](row const&) { return true; };
  auto const is_float = [](row const& r) { return r.codec == "identity"; };
  auto const is_counted = [](row const& r) { return r.sent > 0 && r.reported >= 1e6; };
  auto const is_new = [&](row const& r) { return !model.is_fitted_to(r); };
  auto const is_long = [](row const& r) { return r.step >= shortest; };
  auto const is_both = [&](row const& r) { return is_new(r) && is_long(r); };
  auto const over_plain = [](row const& r) { return r.step / r.plain; };
  auto const over_parts = [](row const& r) { return r.step / r.parts(); };
  auto const off_report = [&](row const& r) { return bytes_error(rows, r); };
  auto const off_model = [&](row const& r) { return std::abs(model.step(r) / r.step - 1); };
  auto text = heading("quantity", {"Mbit/s", "median", "worst", "at most", ""}) + "\n";
  for (auto const& t : {threshold{"`identity` over MPI_Allreduce", is_float, over_plain, 1.05},
                        threshold{"step over plain exchange + codec", any, over_parts, 1.15},
                        threshold{"the same, steps from 10 ms on", is_long, over_parts, 1.15},
                        threshold{"bytes sent, deviation from the report, from 1 MB on", is_counted, off_report, 0.02},
                        threshold{"error of the predicted step", is_new, off_model, 0.2},
                        threshold{"the same, steps from 10 ms on", is_both, off_model, 0.2}}) {
    text += lines_of(t, rows);
  }
  return text;
}

double geometric_mean(std::vector<double> const& x) {
  auto const log = [](double v) { return std::log(v); };
  return std::exp(ranges::accumulate(x, 0.0, std::plus<>(), log) / static_cast<double>(x.size()));
}

/// Times over those of each user's best choice: the mean, and the worst.
std::string regrets(std::vector<decision> const& all) {
  auto text = heading("codec", {"plan", "worst", "always", "worst", "never", "worst"}) + "\n";
  for (auto const& family : families()) {
    auto each = std::vector<std::vector<double>>(3);
    for (auto const& d : all) {
      if (d.family != family) continue;
      auto const times = std::array{d.plan(), d.always(), d.never()};
      for (auto&& [over_best, time] : ranges::views::zip(each, times)) over_best.push_back(time / d.best());
    }
    text += fmt::format("| {} |", code(family));
    for (auto const& x : each) text += fmt::format(" {:.3f} | {:.2f} |", geometric_mean(x), ranges::max(x));
    text += "\n";
  }
  return text;
}

std::string label_of(row const& r) { return is_tensor(r) ? r.workload + " KiB" : r.workload; }

/// Milliseconds of a step, and the speed-up over dense float, for each workload at a rate.
std::string steps_at(std::vector<row> const& rows, double rate) {
  auto const is_place = [&](row const& r) { return r.rate == rate && r.codec == "identity"; };
  auto const places = rows | ranges::views::filter(is_place) | ranges::to<std::vector>();
  auto columns = std::vector<std::string>{"exchange"};
  for (auto const& p : places) columns.push_back(label_of(p));
  auto text = heading("codec", columns) + "\n";
  for (auto const& m : methods) {
    text += fmt::format("| {} | {} |", code(m.family), m.exchange);
    for (auto const& p : places) {
      auto const r = ranges::find_if(rows, [&](row const& x) { return same_place(x, p) && x.codec == m.codec; });
      text += r == rows.end() ? " |" : fmt::format(" {:.3g} ({:.2f}x) |", r->step * 1e3, p.step / r->step);
    }
    text += "\n";
  }
  return text;
}

/// The step of each method over its parts, at each rate: the median over the workloads.
std::string over_parts(std::vector<row> const& rows) {
  auto columns = std::vector<std::string>{"exchange"};
  for (auto const rate : rates_of(rows)) columns.push_back(fmt::format("{:g} Mbit/s", rate));
  auto text = heading("codec", columns) + "\n";
  for (auto const& m : methods) {
    auto const b = threshold{"", [&](row const& r) { return r.codec == m.codec; },
                       [](row const& r) { return r.step / r.parts(); }, 1.15};
    text += fmt::format("| {} | {} |", code(m.family), m.exchange);
    for (auto const rate : rates_of(rows)) {
      auto const values = values_of(b, rows, rate);
      text += values.empty() ? " |" : fmt::format(" {:.2f} |", values[values.size() / 2]);
    }
    text += "\n";
  }
  return text;
}

/// Prints a section or writes it to the page.
void write(std::string const& page, std::string const& name, std::string const& text) {
  if (page.empty()) {
    fmt::print("{}\n\n{}\n", name, text);
  } else {
    bench::update_page(page, name, text);
  }
}

void report(std::string const& table, std::string const& page, double fit_rate) {
  auto const rows = read_rows(table);
  auto const model = oracle(rows, fit_rate);
  write(page, "thresholds", thresholds(rows, model));
  write(page, "parts", over_parts(rows));
  write(page, "regret", regrets(decisions(model, rows)));
  for (auto const rate : rates_of(rows)) write(page, fmt::format("steps {:g}", rate), steps_at(rows, rate));
}

}  // namespace

int main(int argc, char** argv) {
  auto app = CLI::App("The tables of docs/network.md, and their thresholds.", "network_report");
  auto table = std::string(), page = std::string();
  auto rate = 100.0;
  app.add_option("table", table, "the table of network_bench")->required()->check(CLI::ExistingFile);
  app.add_option("--into", page, "a page that has their sections")->check(CLI::ExistingFile);
  app.add_option("--fit-rate", rate, "the rate at which the cost model is fitted")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    report(table, page, rate);
    return 0;
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "network_report: %s\n", error.what());
  }
  return 1;
}
