// benchmarks/choosing/choosing.cpp — the link rates below which a codec is faster than dense float and bfloat16.
//
//   choosing NETWORK.csv THROUGHPUT.csv               prints them as comma-separated values: a step takes
//                                                     fixed_s + megabits / rate seconds
//   choosing NETWORK.csv THROUGHPUT.csv --into PAGE   puts the tables into a page
#include "../network/regret.hpp"
#include "../page.hpp"
#include "forecast.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

using choosing::break_even, choosing::methods, choosing::step;
using network::row;

/// Seconds: below it a token bucket passes much at full speed.
constexpr double shortest = 10e-3;
constexpr char const* models[] = {"ResNet-20", "LSTM", "ResNet-50"};
constexpr unsigned rank_counts[] = {2, 4, 8, 16, 64};

struct options {
  std::string links, codecs, page;
  double fit_rate = 100, latency = 20e-6;
};

/// Predicts steps from the time per byte of the dense sums, and per element of each codec.
class oracle {
 public:
  oracle(options const& o, std::vector<row> const& rows) : links_(network::oracle(rows, o.fit_rate).at(1)) {
    links_.message.fixed = o.latency;
    for (auto const& m : methods) costs_.push_back(choosing::cost_of(o.codecs, m.timed));
  }

  step of(std::string const& model, unsigned ranks, std::size_t method) const {
    auto const& codec = methods[method].codec;
    return choosing::foretell(links_, {codec, choosing::work(model, codec, ranks), costs_[method]});
  }
  /// In the order of the methods: dense float, bfloat16, then the others.
  std::vector<step> all_of(std::string const& model, unsigned ranks) const {
    auto all = std::vector<step>();
    for (std::size_t i = 0; i < std::size(methods); ++i) all.push_back(of(model, ranks, i));
    return all;
  }

 private:
  pith::network links_;
  std::vector<pith::codec_cost> costs_;
};

void print(oracle const& knows, std::string const& model, unsigned ranks) {
  auto const steps = knows.all_of(model, ranks);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    auto const& m = methods[i];
    fmt::print("{},{},{},{},\"{}\",{:.6g},{:.6g},{:.4g},{:.4g}\n", model, ranks, m.family, m.exchange, m.codec,
               steps[i].fixed, steps[i].megabits, break_even(steps[i], steps[0]), break_even(steps[i], steps[1]));
  }
}

void print_all(oracle const& knows) {
  fmt::print("model,ranks,family,exchange,codec,fixed_s,megabits,below_mbit_float,below_mbit_bfloat16\n");
  for (auto const* model : models) {
    for (auto const ranks : rank_counts) print(knows, model, ranks);
  }
}

/// Links above 100 Gbit/s, and codecs as fast as them, were not measured.
std::string gbit(double mbit) {
  if (mbit == 0) return "never";
  return mbit < 99.5e3 ? fmt::format("{:.2g}", mbit / 1e3) : "> 100";
}

std::string line(oracle const& knows, std::string const& model, std::size_t method) {
  auto text = fmt::format("| {} | {} |", bench::code(methods[method].family), methods[method].exchange);
  for (auto const ranks : rank_counts) {
    auto const s = knows.of(model, ranks, method);
    text += fmt::format(" {} / {} |", gbit(break_even(s, knows.of(model, ranks, 0))),
                        gbit(break_even(s, knows.of(model, ranks, 1))));
  }
  return text + "\n";
}

/// Gbit/s below which a method is faster than dense float / than bfloat16, over ranks.
std::string break_evens(oracle const& knows, std::string const& model) {
  auto columns = std::vector<std::string>{"exchange"};
  for (auto const ranks : rank_counts) columns.push_back(fmt::format("{} ranks", ranks));
  auto text = bench::heading("codec", columns) + "\n";
  for (std::size_t i = 1; i < std::size(methods); ++i) text += line(knows, model, i);
  return text;
}

/// The error of the predictions, and how often they find the faster of two methods.
struct agreement {
  std::vector<double> off;
  std::size_t contests = 0, right = 0;
};

/// A measured step, and its predicted time.
struct pair {
  row measured;
  double predicted;
};

std::vector<pair> pairs(oracle const& knows, std::vector<row> const& rows) {
  auto all = std::vector<pair>();
  for (auto const& r : rows) {
    auto const m =
        std::find_if(std::begin(methods), std::end(methods), [&](auto const& x) { return x.codec == r.codec; });
    if (m == std::end(methods) || r.step < shortest) continue;
    auto const s = knows.of(r.workload, r.ranks, static_cast<std::size_t>(m - std::begin(methods)));
    all.push_back({r, s.at(r.rate)});
  }
  return all;
}

std::map<double, agreement> agreements(std::vector<pair> const& all) {
  auto by_rate = std::map<double, agreement>();
  for (auto const& a : all) {
    auto& with = by_rate[a.measured.rate];
    with.off.push_back(std::abs(a.predicted / a.measured.step - 1));
    for (auto const& b : all) {
      auto const is_other = network::same_place(a.measured, b.measured) && &a != &b;
      if (!is_other || !network::is_dense(b.measured.family)) continue;
      ++with.contests;
      with.right += (a.predicted < b.predicted) == (a.measured.step < b.measured.step);
    }
  }
  return by_rate;
}

std::string table(std::map<double, agreement> by_rate) {
  auto text = bench::heading("Mbit/s", {"steps", "error, median", "worst", "faster method predicted"}) + "\n";
  for (auto& [rate, with] : by_rate) {
    std::sort(with.off.begin(), with.off.end());
    text += fmt::format("| {:g} | {} | {:.0f} % | {:.0f} % | {} of {} |\n", rate, with.off.size(),
                        100 * with.off[with.off.size() / 2], 100 * with.off.back(), with.right, with.contests);
  }
  return text;
}

void report(options const& o) {
  auto const rows = network::read_rows(o.links);
  auto const knows = oracle(o, rows);
  if (o.page.empty()) return print_all(knows);
  for (auto const* model : {"ResNet-20", "ResNet-50"}) bench::update_page(o.page, model, break_evens(knows, model));
  bench::update_page(o.page, "agreement", table(agreements(pairs(knows, rows))));
}

}  // namespace

int main(int argc, char** argv) {
  auto app = CLI::App("The link rates below which a codec is faster than dense float and bfloat16.", "choosing");
  auto o = options();
  app.add_option("links", o.links, "the table of network_bench")->required()->check(CLI::ExistingFile);
  app.add_option("codecs", o.codecs, "the table of `grace throughput`")->required()->check(CLI::ExistingFile);
  app.add_option("--into", o.page, "a page that has the sections")->check(CLI::ExistingFile);
  app.add_option("--fit-rate", o.fit_rate, "the rate whose sums of floats give the time per byte")
      ->capture_default_str();
  app.add_option("--latency", o.latency, "fixed seconds per message")->capture_default_str();
  try {
    app.parse(argc, argv);
    report(o);
    return 0;
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "choosing: %s\n", error.what());
  }
  return 1;
}
