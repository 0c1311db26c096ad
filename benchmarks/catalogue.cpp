// benchmarks/catalogue.cpp — the table of docs/catalogue.md: bytes, errors, speeds and laws of each method.
//
//   catalogue [--update docs/catalogue.md] [--data DIR] [--rounds N]
//
// Eight methods at a time are timed in the same rounds (yardstick.hpp), on 2^20 normal values. docs/catalogue.md
// explains the columns.
#include "catalogue.hpp"

#include "page.hpp"
#include "report.hpp"
#include "samples.hpp"

#include <CLI/CLI.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/chunk.hpp>
#include <range/v3/view/concat.hpp>
#include <range/v3/view/transform.hpp>
#include <range/v3/view/zip.hpp>

#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <string>
#include <vector>

namespace {

using bench::method;
using bench::sample;
using subject = bench::subject<float, pith::seq_executor>;
using buffers = bench::rotated<float, pith::seq_executor>;

constexpr unsigned log2n = 20;
auto const dims = bench::matrix_of(log2n);

struct options {
  std::string page, data = PITH_GRADIENTS;
  std::size_t rounds = 101;
};

/// The memory bound over the time.
struct speed {
  double encode, decode;
};

/// The number of methods that are timed in the same rounds. A method needs several buffers for each set of buffers, and
/// the sets together are larger than the last-level cache.
constexpr std::size_t at_once = 8;

/// The speeds of some methods, which are timed in the same rounds.
template <class Methods>
std::vector<speed> speeds_of(Methods const& methods, buffers const& x, std::size_t sets, std::size_t rounds) {
  auto const bytes = dims.n * sizeof(float);
  auto const y = buffers(pith::seq, dims.n, sets);
  auto subjects = std::deque<subject>();
  auto things = std::vector<bench::thing>();
  for (auto const& m : methods) {
    auto& s = subjects.emplace_back(pith::seq, m.codec, dims, sets);
    for (std::size_t set = 0; set < sets; ++set) s.encode(set, x[set]);
    things.push_back({[&](std::size_t set) { s.encode(set, x[set]); }});
    things.push_back({[&](std::size_t set) { s.decode(set, y[set]); }});
  }
  auto const [times, rates] = bench::measure(things, bench::yardstick(pith::seq, bytes, sets), bytes, sets, rounds);
  auto speeds = std::vector<speed>();
  for (auto&& [s, of] : ranges::views::zip(subjects, ranges::views::chunk(times, 2)))
    speeds.push_back({rates.bound(s.encoding()) / of[0].median, rates.bound(s.decoding()) / of[1].median});
  return speeds;
}

std::vector<speed> speeds_on(sample const& values, std::size_t rounds) {
  auto const sets = bench::sets_for(dims.n * sizeof(float));
  auto const x = buffers(pith::seq, dims.n, sets);
  for (std::size_t set = 0; set < sets; ++set) std::memcpy(x[set].data(), values.values.data(), dims.n * sizeof(float));
  auto speeds = std::vector<speed>();
  for (auto const& methods : ranges::views::chunk(bench::catalogue, at_once)) {
    auto const own = speeds_of(methods, x, sets, rounds);
    speeds.insert(speeds.end(), own.begin(), own.end());
  }
  return speeds;
}

double error_on(sample const& s, method const& m) {
  auto decoded = std::vector<float>(s.values.size());
  std::size_t at = 0;
  for (auto const& tensor : s.tensors) {
    auto codec = subject(pith::seq, m.codec, tensor, 1);
    codec.encode(0, pith::span<float const>(s.values).subspan(at, tensor.n));
    codec.decode(0, pith::span<float>(decoded).subspan(at, tensor.n));
    at += tensor.n;
  }
  return bench::relative_error<float>(s.values, decoded);
}

std::string number(char const* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
std::string number(double value) { return number(value >= 99.5 ? "%.0f" : "%.2g", value); }

/// The laws of a method, in words.
std::string laws_of(pith::capabilities const& of) {
  auto text = std::string();
  auto const say = [&](bool holds, std::string const& words) {
    if (holds) text.append(text.empty() ? "" : ", ").append(words);
  };
  say(of.omega.has_value(), "unbiased");
  say(of.contraction().value_or(0) > 0, "contractive");
  if (of.error_bound && std::isfinite(*of.error_bound)) say(true, "within " + number(*of.error_bound));
  say(of.projection, "projection");
  say(of.isometric, "isometric");
  say(of.rotation, "rotation");
  say(of.sums != pith::sum_form::none, "summable");
  return text;
}

/// The bound of its mean relative error.
std::string bound_of(pith::capabilities const& of) {
  if (of.omega) return number(*of.omega);
  return of.delta ? number(1 - *of.delta) : "";
}

std::string row(method const& m, std::vector<sample> const& samples, speed const& of) {
  auto s = subject(pith::seq, m.codec, dims, 1);
  s.encode(0, samples[0].values);
  auto const bytes = static_cast<double>(s.used_bytes());
  auto cells = std::vector<std::string>{m.name, bench::code(m.codec), m.family, number("%.0f", bytes),
                                        number("%.1f", static_cast<double>(dims.n * sizeof(float)) / bytes)};
  for (auto const& x : samples) cells.push_back(number(error_on(x, m)));
  auto const promised = bench::codec_of<float, pith::seq_executor>(m.codec).capabilities_for(dims);
  cells.insert(cells.end(), {bound_of(promised), laws_of(promised), number(100 * of.encode), number(100 * of.decode)});
  cells.push_back(m.memory);
  return bench::line(cells) + "\n";
}

std::string table(options const& o) {
  auto const samples = bench::all_samples(log2n, o.data);
  auto const speeds = speeds_on(samples[0], o.rounds);
  auto const sizes = std::vector<std::string>{"codec", "class", "bytes", "ratio"};
  auto const costs = std::vector<std::string>{"at most", "laws", "encode", "decode", "memory"};
  auto const errors = samples | ranges::views::transform(&sample::name);
  auto const columns = ranges::views::concat(sizes, errors, costs) | ranges::to<std::vector>();
  auto text = "\n" + bench::field_of("/proc/cpuinfo", "model name") + ", " PITH_COMPILER ".\n\n" +
              bench::heading("method", columns) + "\n";
  for (auto const& [m, s] : ranges::views::zip(bench::catalogue, speeds)) text += row(m, samples, s);
  return text + "\n";
}

}  // namespace

int main(int argc, char** argv) {
  auto app = CLI::App("Bytes, errors, speeds and laws of each method.", "catalogue");
  auto o = options();
  app.add_option("--update", o.page, "the page to write the table to, in place of printing it");
  app.add_option("--data", o.data, "the models' gradients")->capture_default_str();
  app.add_option("--rounds", o.rounds)->check(CLI::Range(31, 100'000))->capture_default_str();
  try {
    app.parse(argc, argv);
    auto const text = table(o);
    if (o.page.empty()) return std::fputs(text.c_str(), stdout) < 0;
    bench::update_page(o.page, "catalogue", text);
    return 0;
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "catalogue: %s\n", error.what());
  }
  return 1;
}
