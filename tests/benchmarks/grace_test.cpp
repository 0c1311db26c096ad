// tests/benchmarks/grace_test.cpp — the figures of GRACE's evaluation: which rows, and the numbers known by hand.
#include "../../benchmarks/grace/latency.hpp"
#include "../../benchmarks/grace/quality.hpp"
#include "../../benchmarks/grace/throughput.hpp"
#include "../../examples/train/load.hpp"

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using row = std::vector<std::string>;

/// The cells of a line; what is quoted may hold commas.
row cells_of(std::string const& line) {
  auto cells = row{""};
  auto quoted = false;
  for (auto const c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.emplace_back();
    else
      cells.back() += c;
  }
  return cells;
}

std::vector<row> rows_of(std::function<void(std::FILE*)> const& write) {
  auto const file = std::unique_ptr<std::FILE, int (*)(std::FILE*)>(std::tmpfile(), &std::fclose);
  write(file.get());
  std::rewind(file.get());
  auto rows = std::vector<row>();
  auto line = std::string();
  for (int c; (c = std::fgetc(file.get())) != EOF;) {
    if (c != '\n')
      line += static_cast<char>(c);
    else
      rows.push_back(cells_of(std::exchange(line, "")));
  }
  CHECK(line.empty());
  for (auto const& r : rows) CHECK(r.size() == rows[0].size());
  return rows;
}

/// The cell of a row under a title.
std::string cell(std::vector<row> const& rows, std::size_t i, std::string const& title) {
  auto const at = std::find(rows.at(0).begin(), rows.at(0).end(), title);
  REQUIRE(at != rows[0].end());
  return rows.at(i).at(static_cast<std::size_t>(at - rows[0].begin()));
}
double number(std::vector<row> const& rows, std::size_t i, std::string const& title) {
  return std::stod(cell(rows, i, title));
}

}  // namespace

TEST_CASE("each method is a codec by the name that it gives itself") {
  auto names = std::set<std::string>();
  for (auto const& m : grace::methods) {
    CAPTURE(m.codec);
    CHECK(train::codec_of(m.codec).name() == m.codec);
    CHECK(names.insert(m.name).second);
  }
  CHECK(std::string(grace::dense_float.codec) == train::dense_float);
  CHECK(std::string(grace::dense_bfloat16.codec) == train::dense_bfloat16);
}

TEST_CASE("the latency table has one row per requested size and method") {
  auto const o = grace::latency_options{{"none", "QSGD, 8 bits"}, {10, 11}, 1};
  auto const rows = rows_of([&](std::FILE* out) { grace::write_latency(out, o); });
  REQUIRE(rows.size() == 5);
  CHECK(rows[0] == row{"method", "family", "codec", "log2n", "compress", "decompress"});
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CHECK(cell(rows, i, "method") == (i % 2 == 1 ? "none" : "QSGD: 8 bits"));
    CHECK(number(rows, i, "log2n") == (i < 3 ? 10 : 11));
    CHECK(number(rows, i, "compress") > 0);
    CHECK(number(rows, i, "decompress") > 0);
  }
}

TEST_CASE("throughput is that of dense float where computing takes for ever, and of bytes where nothing else counts") {
  auto const tensors = std::vector<pith::tensor_spec>{{"matrix", {1'000'000, 1000}}, {"vector", {10}}};
  auto o = grace::throughput_options{{"none", "random-k"}, 4, 1e9, 1};
  auto const table = [&] { return rows_of([&](std::FILE* out) { grace::write_throughput(out, tensors, o); }); };
  auto const slow = table();
  REQUIRE(slow.size() == 1 + 2 * std::size(grace::link_rates));
  for (std::size_t i = 1; i < slow.size(); ++i) CHECK(number(slow, i, "over_float32") == 1);
  o.compute = 0;
  auto const fast = table();
  CHECK(number(fast, 1, "over_float32") == 1);
  CHECK(number(fast, 1, "sent_bytes") == 1.5 * 4 * 1'000'010);
  CHECK(number(fast, 1, "gbit") == 0.1);
  auto const i = 1 + std::size(grace::link_rates);
  CHECK(cell(fast, i, "method") == "random-k");
  CHECK(number(fast, i, "sent_bytes") == 1.5 * 4 * 10'010);
  auto const codec = (number(fast, i, "encode_ms") + number(fast, i, "decode_ms")) * 1e-3;
  auto const dense = (number(fast, 1, "encode_ms") + number(fast, 1, "decode_ms")) * 1e-3;
  auto const link = [](double n) { return 1.5 * 4 * n * 8 / 0.1e9 + 2 * 3 * 20e-6; };
  // What is printed of both times is off by 10 us at most, and of their quotient by 5e-4 of it.
  auto const expected = (link(1'000'010) + dense) / (link(10'010) + codec);
  CHECK(std::abs(number(fast, i, "over_float32") / expected - 1) < 1e-3 + 10e-6 / (link(10'010) + codec));
}

TEST_CASE("the quality table has accuracy, volume and throughput of each requested method") {
  auto o = train::options();
  o.steps = 3;
  o.seeds = 2;
  auto const data = train::load(PITH_TRAIN_DATA);
  auto const log = std::unique_ptr<std::FILE, int (*)(std::FILE*)>(std::tmpfile(), &std::fclose);
  auto const rows = rows_of([&](std::FILE* out) {
    grace::write_quality(out, log.get(), {"none", "threshold", "PowerSGD"}, o, data);
  });
  REQUIRE(rows.size() == 4);
  CHECK(number(rows, 1, "volume") == 1);
  CHECK(number(rows, 1, "over_float32_at_10") == 1);
  CHECK(number(rows, 2, "volume") <= 0.4);  // at most a quarter of the values, and indices of 12 bits
  // A row and a column of 64 x 64 and of 10 x 64, and 74 biases.
  CHECK(number(rows, 3, "volume") == doctest::Approx((128 + 74 + 74) / 4810.0).epsilon(5e-4));
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CHECK(number(rows, i, "seeds") == 2);
    CHECK(number(rows, i, "accuracy") >= 0);
    CHECK(number(rows, i, "accuracy") <= 1);
    CHECK(number(rows, i, "over_float32_at_1") > 0);
  }
}
