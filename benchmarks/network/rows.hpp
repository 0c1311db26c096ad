// benchmarks/network/rows.hpp — reads the table of network_bench.
#pragma once

#include <range/v3/range/conversion.hpp>
#include <range/v3/view/getlines.hpp>
#include <range/v3/view/remove_if.hpp>
#include <range/v3/view/transform.hpp>

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace network {

/// A method on a workload at a rate. Seconds of the slowest rank; bytes of all ranks per step.
struct row {
  double rate;  ///< Mbit/s
  unsigned ranks;
  std::string workload;
  std::uint64_t elements;
  std::string family, exchange, codec;
  double step, plain, encode, decode, reported, sent, plain_sent;

  /// The time of a step without overhead: the same bytes by MPI alone, plus the codec alone.
  double parts() const { return plain + encode + decode; }
};

/// The fields of a line; some are quoted.
inline std::vector<std::string> fields(std::string_view line) {
  auto all = std::vector<std::string>(1);
  auto is_quoted = false;
  for (auto const c : line) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      all.emplace_back();
    } else {
      all.back() += c;
    }
  }
  return all;
}

inline row row_of(std::string const& line) {
  auto const f = fields(line);
  if (f.size() != 15) throw std::runtime_error("not a row of network_bench: " + line);
  auto const number = [&](std::size_t i) { return std::stod(f[i]); };
  return {number(0),  static_cast<unsigned>(number(1)),
          f[2],       std::stoull(f[3]),
          f[4],       f[5],
          f[6],       number(8),
          number(9),  number(10),
          number(11), number(12),
          number(13), number(14)};
}

/// The rows of one or several concatenated tables.
inline std::vector<row> read_rows(std::string const& path) {
  auto file = std::ifstream(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  auto const is_heading = [](std::string const& line) { return line.starts_with("rate_mbit"); };
  return ranges::getlines(file) | ranges::views::remove_if(is_heading) | ranges::views::transform(row_of) |
         ranges::to<std::vector>();
}

}  // namespace network
