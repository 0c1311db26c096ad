// benchmarks/choosing/choosing.cpp — measured and predicted speed-ups over bfloat16, for docs/choosing.md.
//
//   choosing NETWORK.csv               prints the table
//   choosing NETWORK.csv --into PAGE   puts it into a page
#include "../network/regret.hpp"
#include "../page.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <range/v3/algorithm/find_if.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/filter.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using network::row;

constexpr auto model = "LSTM";
constexpr auto dense = "cast<bfloat16>";

row const& at(std::vector<row> const& rows, row const& place, std::string const& codec) {
  auto const is_it = [&](row const& r) { return network::same_place(r, place) && r.codec == codec; };
  auto const found = ranges::find_if(rows, is_it);
  if (found == rows.end()) throw std::runtime_error("no row of " + codec + " for " + place.workload);
  return *found;
}

/// How many times as fast as with bfloat16 a step is: measured, and by the cost model.
std::string speed_ups(std::vector<row> const& rows, network::oracle const& cost, row const& place,
                      std::string const& codec) {
  auto const &step = at(rows, place, codec), &base = at(rows, place, dense);
  return fmt::format(" {:.2g} | {:.2g} |", base.step / step.step, cost.step(base) / cost.step(step));
}

std::string table(std::vector<row> const& rows, network::oracle const& cost) {
  auto const is_place = [](row const& r) { return r.workload == model && r.codec == dense; };
  auto const places = rows | ranges::views::filter(is_place) | ranges::to<std::vector>();
  auto columns = std::vector<std::string>();
  for (auto const& p : places) {
    columns.push_back(fmt::format("{:g} Mbit/s: measured", p.rate));
    columns.push_back("predicted");
  }
  auto text = bench::heading("codec", columns) + "\n";
  for (auto const& m : network::methods) {
    if (network::is_dense(m.family)) continue;
    text += fmt::format("| {} |", bench::code(m.codec));
    for (auto const& p : places) text += speed_ups(rows, cost, p, m.codec);
    text += "\n";
  }
  return text;
}

void report(std::string const& path, std::string const& page, double fit_rate) {
  auto const rows = network::read_rows(path);
  auto const text = table(rows, network::oracle(rows, fit_rate));
  if (page.empty()) {
    fmt::print("{}", text);
  } else {
    bench::update_page(page, "speed-ups", text);
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto app = CLI::App("Measured and predicted speed-ups of codecs over bfloat16.", "choosing");
  auto path = std::string(), page = std::string();
  auto rate = 100.0;
  app.add_option("table", path, "the table of network_bench")->required()->check(CLI::ExistingFile);
  app.add_option("--into", page, "a page that has the section")->check(CLI::ExistingFile);
  app.add_option("--fit-rate", rate, "the rate at which the cost model is fitted")->capture_default_str();
  try {
    app.parse(argc, argv);
    report(path, page, rate);
    return 0;
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "choosing: %s\n", error.what());
  }
  return 1;
}
