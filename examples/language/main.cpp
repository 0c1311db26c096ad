// examples/language/main.cpp — four ranks train a language model over links of 100 Mbit/s, with several codecs.
//
//     language                     five codecs: 40 s on two cores
//     language --plot DIR          draws the validation loss over seconds, by gnuplot
//     language --mbit 10 --delay-ms 20
//     language --check             fails if a codec does not learn
//
// Its output on two cores that also compiled other programs:
//
// LSTM of 517825 parameters, 4 ranks x 4 sequences of 32 characters, Adam, 60 steps
// links of 100 Mbit/s with a delay of 0 ms; a model that counts characters has the loss 3.313
//
//                                                   sent          validation   seconds to
// codec of the matrices                          kB/step  seconds       loss   loss 2.924
// identity                                          3107     17.2      2.815         15.4
// cast<bfloat16>                                    1558      9.5      2.815          8.5
// two_shot(block_int<8>)                             796      5.9      2.816          5.3
// ef(two_shot(block_int<4>,ef(block_int<4>)))        408      4.5      2.908          4.4
// ef(power_sgd(4))                                    91      3.1      2.924          3.1
// sent: the bytes that leave a rank. Seconds are measured: the links are emulated (pith/comm/shaped.hpp), and the ranks
// are threads that share this machine's cores. The last column is the time to the highest of the final losses.
#include "training.hpp"

#include <pith/collective/two_shot.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/block_int.hpp>

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace language;

struct options {
  std::filesystem::path data = PITH_LANGUAGE_DATA, plot;
  double mbit = 100, delay_ms = 0;
  std::size_t steps = 60;
  std::uint64_t seed = 1;
  bool check = false;
};

struct named_codec {
  std::string name;
  pith::any_codec<float> codec;
};

std::vector<named_codec> codecs() {
  auto const blocks = pith::block_int<4>();
  return {{"identity", pith::identity()},
          {"cast<bfloat16>", pith::cast<pith::bfloat16>()},
          {"two_shot(block_int<8>)", pith::two_shot(pith::block_int<8>())},
          {"ef(two_shot(block_int<4>,ef(block_int<4>)))",
           pith::error_feedback(pith::two_shot(blocks, pith::error_feedback(blocks)))},
          {"ef(power_sgd(4))", pith::error_feedback(pith::power_sgd(4))}};
}

/// The validation loss at some time of the training.
struct point {
  double seconds, loss;
};

struct result {
  std::string codec;
  std::vector<point> curve;
  double sent;
};

/// Shows the progress on a terminal as one line.
class progress {
 public:
  explicit progress(std::size_t steps) : steps_(steps), is_terminal_(isatty(STDERR_FILENO) != 0) {}
  ~progress() {
    if (is_terminal_) fmt::print(stderr, "\r\033[K");
  }

  void at(std::string const& codec, std::size_t step) const {
    if (!is_terminal_) return;
    fmt::print(stderr, "\r{}: step {} of {}\033[K", codec, step, steps_);
    std::fflush(stderr);
  }

 private:
  std::size_t steps_;
  bool is_terminal_;
};

result judged(task const& job, std::string const& codec, history const& seen) {
  auto model = job.model;
  auto random = std::mt19937_64(0);
  auto const x = sample(job.data.validation(), 256, job.length, random);
  auto found = result{codec, {}, seen.sent};
  for (auto const& s : seen.snapshots) found.curve.push_back({s.seconds, model.loss(x, s.parameters)});
  return found;
}

/// The first time at which a curve's loss is at most `loss`, on straight lines between the points.
double seconds_to(std::vector<point> const& curve, double loss) {
  for (std::size_t i = 1; i < curve.size(); ++i) {
    auto const &a = curve[i - 1], &b = curve[i];
    if (b.loss <= loss) return a.seconds + (b.seconds - a.seconds) * (a.loss - loss) / (a.loss - b.loss);
  }
  return curve.back().seconds;
}

void print(task const& job, options const& o, std::vector<result> const& results) {
  auto const by_loss = [](result const& a, result const& b) { return a.curve.back().loss < b.curve.back().loss; };
  auto const goal = std::ranges::max_element(results, by_loss)->curve.back().loss;
  fmt::print("LSTM of {} parameters, {} ranks x {} sequences of {} characters, Adam, {} steps\n", job.model.size(),
             job.ranks, job.sequences, job.length, job.steps);
  fmt::print("links of {} Mbit/s with a delay of {} ms; a model that counts characters has the loss {:.3f}\n\n", o.mbit,
             o.delay_ms, job.data.unigram_entropy());
  fmt::print("{:44} {:>9} {:>8} {:>10} {:>12}\n", "", "sent", "", "validation", "seconds to");
  fmt::print("{:44} {:>9} {:>8} {:>10} {:>12}\n", "codec of the matrices", "kB/step", "seconds", "loss",
             fmt::format("loss {:.3f}", goal));
  for (auto const& r : results)
    fmt::print("{:44} {:9.0f} {:8.1f} {:10.3f} {:12.1f}\n", r.codec, r.sent / 1e3, r.curve.back().seconds,
               r.curve.back().loss, seconds_to(r.curve, goal));
}

constexpr auto style = R"(set terminal svg size 900,500 noenhanced font 'sans,15' background 'white'
set grid
set xlabel 'seconds of training, measured'
set ylabel 'validation loss (nats per character)'
)";

void plot(options const& o, std::vector<result> const& results) {
  std::filesystem::create_directories(o.plot);
  auto* const script = popen("gnuplot", "w");
  if (script == nullptr) throw std::runtime_error("language: --plot needs gnuplot");
  fmt::print(script, "{}set output '{}'\n", style, (o.plot / "loss_over_seconds.svg").string());
  fmt::print(script, "set title 'Four ranks, links of {} Mbit/s'\nplot", o.mbit);
  for (auto const& r : results)
    fmt::print(script, "{} '-' with lines linewidth 2 title '{}'", &r == results.data() ? "" : ",", r.codec);
  fmt::print(script, "\n");
  for (auto const& r : results) {
    for (auto const& [seconds, loss] : r.curve) fmt::print(script, "{} {}\n", seconds, loss);
    fmt::print(script, "e\n");
  }
  if (pclose(script) != 0) throw std::runtime_error("language: gnuplot failed");
}

/// Throws if a codec's model is no better than one that counts characters.
void check(task const& job, std::vector<result> const& results) {
  for (auto const& r : results) {
    if (!(r.curve.back().loss < job.data.unigram_entropy()))
      throw std::runtime_error(fmt::format("language: with {}, the validation loss must fall below {:.3f}, got {:.3f}",
                                           r.codec, job.data.unigram_entropy(), r.curve.back().loss));
  }
}

void run(options const& o) {
  auto const data = text(o.data);
  auto const link = pith::link_shape{o.mbit * 1e6, std::chrono::duration<double, std::milli>(o.delay_ms)};
  auto const job = task{data, lstm(data.kinds(), 64, 320), 4, o.steps, 4, 32, 0.004f, link};
  auto results = std::vector<result>();
  for (auto const& of : codecs()) {
    auto const shown = progress(job.steps);
    auto const seen = train(job, of.codec, o.seed, [&](std::size_t steps) { shown.at(of.name, steps); });
    results.push_back(judged(job, of.name, seen));
  }
  print(job, o, results);
  if (!o.plot.empty()) plot(o, results);
  if (o.check) check(job, results);
}

}  // namespace

int main(int argc, char** argv) {
  auto o = options();
  CLI::App app("Trains a language model on four ranks inside one process, over links of a given rate.", "language");
  app.add_option("--data", o.data, "a text, or a text compressed by gzip")->check(CLI::ExistingFile);
  app.add_option("--mbit", o.mbit, "the rate of the links in Mbit/s")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--delay-ms", o.delay_ms, "the delay of the links in ms")->check(CLI::NonNegativeNumber);
  app.add_option("--steps", o.steps)->check(CLI::Range(10, 1'000'000))->capture_default_str();
  app.add_option("--seed", o.seed)->capture_default_str();
  app.add_option("--plot", o.plot, "a folder for the validation loss over seconds, as SVG");
  app.add_flag("--check", o.check, "fail if a model is no better than one that counts characters");
  CLI11_PARSE(app, argc, argv);
  try {
    run(o);
  } catch (std::exception const& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
