// tests/examples/train_test.cpp — the training example: its ranks, its measurements and its command line.
#include "../../examples/train/command.hpp"

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

train::task digits(std::size_t steps, char const* model = "mlp") {
  auto data = train::load(PITH_TRAIN_DATA);
  auto const net = train::make_network(model, data.train);
  return {std::move(data), net, 4, steps, 8, 0.02f, 0.9f};
}

train::history run(train::task const& job, std::string const& codec, std::uint64_t seed = 1) {
  return train::run(job, codec, seed, [](std::size_t) {});
}

/// Dense training as it would be without threads and communication.
std::vector<float> trained_alone(train::task const& job) {
  auto net = job.net;
  auto w = train::initial_parameters(net, 1);
  train::sgd descent(w.size(), job.learning_rate, job.momentum);
  std::vector<train::sampler> samplers;
  for (unsigned rank = 0; rank < job.ranks; ++rank)
    samplers.emplace_back(job.data.train, rank, job.ranks, job.batch, 1);
  std::vector<float> gradient(w.size());
  for (std::size_t step = 0; step < job.steps; ++step) {
    std::vector<float> mean(w.size());
    for (auto& sampler : samplers) {
      auto const& batch = sampler.at(step);
      net.gradient(batch.pixels, batch.labels, w, gradient);
      for (std::size_t i = 0; i < w.size(); ++i)
        mean[i] += gradient[i] / 4;  // exact, so the order of / does not matter
    }
    descent.step(w, mean);
  }
  return w;
}

void spin(double seconds) {
  for (train::stopwatch watch; seconds > 0;) seconds -= watch.lap();
}

/// Transfers take 2 ms.
struct slow_communicator {
  unsigned rank() const { return 0; }
  unsigned size() const { return 1; }
  slow_communicator split(unsigned) { return {}; }

  template <pith::executor E>
  pith::completed all_gather(E const&, pith::span_on<E, std::byte const>, pith::span_on<E, std::byte>) {
    spin(2e-3);
    return {};
  }

  template <pith::executor E, class T>
  pith::completed all_reduce(E const&, pith::span<T>, pith::reduction) {
    spin(2e-3);
    return {};
  }
};

class temporary {
 public:
  temporary() : path_(std::filesystem::temp_directory_path() / ("pith train's test " + std::to_string(getpid()))) {
    create_directory(path_);
  }
  ~temporary() { remove_all(path_); }
  temporary(temporary const&) = delete;
  temporary& operator=(temporary const&) = delete;

  std::string operator/(char const* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string content(std::string const& name) {
  std::ifstream file(name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string content(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  return text;
}

struct finished {
  int code;
  std::string out, log;
};

finished train_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "train");
  std::vector<char const*> argv;
  for (auto const& argument : arguments) argv.push_back(argument.c_str());
  train::written_file const out(std::tmpfile(), &std::fclose), log(std::tmpfile(), &std::fclose);
  auto const code = train::command(static_cast<int>(argv.size()), argv.data(), out.get(), log.get());
  return {code, content(out.get()), content(log.get())};
}

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

std::ptrdiff_t lines(std::string const& text) { return std::count(text.begin(), text.end(), '\n'); }

/// One line on the log that contains `words`, and nothing else.
void check_refused(std::vector<std::string> const& arguments, std::string const& words) {
  auto const end = train_command(arguments);
  CAPTURE(end.log);
  CHECK(end.code == 1);
  CHECK(end.out.empty());
  CHECK(lines(end.log) == 1);
  CHECK(has(end.log, words));
}

train::trial trial_with(std::string const& codec, double accuracy) {
  return {codec, {4, {0, 4}, {}}, {{{{1, accuracy}}, 0.1, {}}}};
}

}  // namespace

// ---- ranks ----------------------------------------------------------------------------------------------------------

TEST_CASE("dense ranks learn the bits that one thread learns") {
  for (auto const* model : {"mlp", "convolutional"}) {
    auto const job = digits(30, model);
    CHECK(run(job, "identity").result() == trained_alone(job));
  }
}

TEST_CASE("the same seed gives the same bits, another seed others") {
  auto const job = digits(20);
  for (auto const& codec : train::default_codecs()) {
    CAPTURE(codec);
    auto const result = run(job, codec).result();
    CHECK(result == run(job, codec).result());
    CHECK(result != run(job, codec, 2).result());
  }
}

TEST_CASE("weights are compressed and biases are not") {
  auto const job = digits(1);
  CHECK(train::compressed_share(job.net) == 4736.0 / 4810);
  CHECK(train::predict(job, "cast<half>").bytes.total() == (4736 + 4736 / 4) * 2 + 74 * 4);  // and the means of a part
  CHECK(train::predict(job, "identity").bytes.total() == 4810 * 4);
}

TEST_CASE("a training leaves snapshots of every epoch and of its end") {
  auto const seen = run(digits(100), "identity");
  CHECK(seen.snapshots.size() == 20);
  CHECK(seen.snapshots.front().steps == 5);
  auto const longer = run(digits(1000), "identity");  // 44 steps an epoch
  CHECK(longer.snapshots.size() == 23);
  CHECK(longer.snapshots[21].steps == 968);
  CHECK(longer.snapshots[22].steps == 1000);
  CHECK(run(digits(1), "identity").snapshots.size() == 1);
  CHECK(seen.bytes.total() == 100 * 4810 * 4);
}

TEST_CASE("an error of a rank is the training's") {
  CHECK_THROWS_AS(run(digits(1), "ef(top_k(0.01)|qsgd<2>)"), std::invalid_argument);
}

// ---- measurements ---------------------------------------------------------------------------------------------------

TEST_CASE("gradiveq records its warm-up, sampled and compressed steps, and requires a model with convolutions") {
  // 2 steps of warm-up, then 2 that are sampled and 8 that are compressed, and so on.
  auto const seen = run(digits(24, "convolutional"), "gradiveq").decided;
  REQUIRE(seen.size() == 24);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CAPTURE(i);
    CHECK(seen[i].step == i + 1);
    if (i < 2) CHECK(seen[i].factor == doctest::Approx(1).epsilon(0.01));
    if (i >= 2) CHECK(seen[i].factor > 1.5);
    auto const is_compressed = i >= 2 && (i - 2) % 10 >= 2;
    CHECK((seen[i].gain < 1) == is_compressed);
  }
  CHECK_THROWS_WITH(run(digits(24), "gradiveq"), "train: gradiveq needs a model with convolutions");
}

TEST_CASE("a stopwatch measures encoding, transfers and decoding separately") {
  train::stopwatch_communicator watch{slow_communicator()};
  auto part = watch.split(0);
  std::vector<float> x(1);
  auto const spent = watch.of([&] {
    spin(1e-3);  // encode
    watch.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum);
    spin(3e-3);  // encode: the next round of a collective
    part.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum);
    spin(7e-3);  // decode
  });
  CHECK(spent.encode >= 4e-3);
  CHECK(spent.exchange >= 4e-3);
  CHECK(spent.decode >= 7e-3);
  CHECK(spent.compute == 0);
  CHECK(watch.of([] {}).exchange == 0);
}

TEST_CASE("an echo communicator exchanges as if every rank held the data of this rank") {
  train::echo_communicator echo(3);
  std::vector<std::byte> const mine{std::byte{1}, std::byte{2}};
  std::vector<std::byte> all(6);
  echo.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all));
  CHECK(all == std::vector{std::byte{1}, std::byte{2}, std::byte{1}, std::byte{2}, std::byte{1}, std::byte{2}});
  std::vector<std::int32_t> x{5, -7};
  echo.all_reduce(pith::seq, pith::span<std::int32_t>(x), pith::reduction::max);
  CHECK(x == std::vector{5, -7});
  echo.all_reduce(pith::seq, pith::span<std::int32_t>(x), pith::reduction::sum);
  CHECK(x == std::vector{15, -21});
}

TEST_CASE("bytes sent and the time of a step, by hand") {
  pith::traffic const bytes{100, 400};
  CHECK(bytes.total() == 500);
  CHECK(bytes.sent(4) == 3 * 100 + 1.5 * 400);
  train::prediction const predicted{4, bytes, {1e-3, 2e-3, 99, 3e-3}};
  CHECK(predicted.step(1) == doctest::Approx(6e-3 + 900 * 8e-9 + 120e-6));
  CHECK(predicted.step(100) == doctest::Approx(6e-3 + 900 * 8e-11 + 120e-6));
  train::prediction const dense{4, {0, 4'000'000}, {1e-3, 0, 99, 0}};
  CHECK(predicted.throughput_over(dense, 1) == doctest::Approx((1e-3 + 48e-3 + 120e-6) / predicted.step(1)));
  CHECK((pith::traffic{100, 400} / 4).total() == 125);
}

TEST_CASE("statistics by hand") {
  CHECK(train::mean({1, 2, 6}) == 3);
  CHECK(train::standard_deviation({1, 2, 6}) == doctest::Approx(std::sqrt(7.0)));
  CHECK(train::standard_deviation({5}) == 0);
  CHECK(train::median({9, 1, 4}) == 4);
  CHECK(std::abs(train::student(4) - 2.7764) < 0.01);  // the tables' values
  CHECK(std::abs(train::student(24) - 2.0639) < 1e-4);
  auto const [low, high] = train::confidence({1, 2, 3, 4, 5});  // 3 -+ 2.7764 sqrt(2.5 / 5)
  CHECK(low == doctest::Approx(3 - 1.9632).epsilon(0.01));
  CHECK(high == doctest::Approx(3 + 1.9632).epsilon(0.01));
}

TEST_CASE("a condition that does not hold is said") {
  std::vector<train::trial> trials;
  for (auto const& codec : train::default_codecs())
    trials.push_back(trial_with(codec, codec == "top_k(0.01)" ? 0.94 : 0.97));
  train::written_file const good(std::tmpfile(), &std::fclose), bad(std::tmpfile(), &std::fclose);
  CHECK(train::check(good.get(), digits(1), trials));
  CHECK(!has(content(good.get()), "FAILS"));
  trials[4] = trial_with("top_k(0.01)", 0.96);
  CHECK(!train::check(bad.get(), digits(1), trials));
  CHECK(has(content(bad.get()), "FAILS: top_k(0.01) is -1.00 points from dense float, within [-100, -2]"));
}

TEST_CASE("a study folds the images of both parts, and compares with bfloat16") {
  auto const [train, test] = digits(1).data;
  auto const all = train::joined(train, test);
  CHECK(all.size() == 1797);
  CHECK(all.labels[1437] == test.labels[0]);
  CHECK(std::ranges::equal(all.pixels(1437, 1), test.pixels(0, 1)));
  CHECK(train::differences({3, 5}, {1, 7}) == std::vector<double>{2, -2});
  auto const [code, out, log] = train_command({"--study", "--steps", "2", "--seeds", "1", "--codec", "identity"});
  CHECK(code == 0);
  CHECK(lines(log) == 5 * 2);
  CHECK(out.find("cast<bfloat16>") < out.find("identity"));
}

// ---- the command line -----------------------------------------------------------------------------------------------

TEST_CASE("bad input is one line of complaint") {
  check_refused({"--codec", "nonsense"}, "\"nonsense\" is not a stage");
  check_refused({"--codec", "identity", "--codec", "top_k(2)"}, "density must be in (0, 1]");
  check_refused({"--codec", "ef(top_k(0.01)|qsgd<2>)"}, "must have delta above 0");
  check_refused({"--ranks", "0"}, "--ranks: Value 0 not in range");
  check_refused({"--ranks", "1"}, "--ranks: Value 1 not in range");
  check_refused({"--ranks", "four"}, "--ranks");
  check_refused({"--data", "/nowhere"}, "--data: Directory does not exist: /nowhere");
  check_refused({"--data", "/"}, "expected digits.csv");
  check_refused({"--batch", "400"}, "4 ranks x 400 images are more than the 1437 for training");
  check_refused({"--model", "transformer"}, "--model: transformer not in {mlp,convolutional}");
  check_refused({"--csv", "/nowhere/results.csv"}, "cannot write /nowhere/results.csv");
  check_refused({"--plot", "/dev/null/plots"}, "/dev/null/plots");
  check_refused({"--check", "--study"}, "excludes");
  check_refused({"--speed", "9"}, "--speed");
}

TEST_CASE("the codecs that are listed exist") {
  for (auto const& word : train::codec_words()) CHECK_NOTHROW(train::codec_of(word.example));
  for (auto const& codec : train::default_codecs()) CHECK(train::codec_of(codec).name() == codec);
}

TEST_CASE("all that parse can say is listed, and GRACE's methods with their memories") {
  auto const [code, out, log] = train_command({"--list"});
  CHECK(code == 0);
  auto listed = std::set<std::string>();
  auto const pattern = std::regex("\\w+");
  for (auto const& row : train::codec_words()) {
    CHECK(has(out, std::string("\n") + row.example));
    auto const text = std::string(row.example);
    for (auto at = std::sregex_iterator(text.begin(), text.end(), pattern); at != std::sregex_iterator(); ++at)
      listed.insert(at->str());
  }
  auto const check_listed = [&](auto const& methods) {
    for (auto const& method : methods) {
      CAPTURE(method.form);
      CHECK(listed.contains(std::string(method.name())) == !train::is_left_out(method.name()));
    }
  };
  check_listed(pith::stage_listings);
  check_listed(pith::exchange_listings);
  check_listed(pith::policy_listings);
  for (auto const& m : train::methods) CHECK(has(out, std::string("\n") + m.codec + " "));
  for (auto const* word :
       {"bypass(", "two_shot(", "ring(", "ok_top_k(", "g_top_k(", "inceptionn(", "adaptive_threshold(", "sketch_ml<"})
    CHECK(has(out, std::string("\n") + word));
}

TEST_CASE(
    "option --all trains every listed method, including those that parse cannot build, and prints one row for each") {
  auto const end = train_command({"--all", "--steps", "2", "--ranks", "2"});
  CAPTURE(end.log);
  CHECK(end.code == 0);
  auto const all = train::all_methods();
  CHECK(lines(end.log) == std::ssize(all));
  for (auto const& m : all) CHECK(has(end.out, std::string("\n") + m.codec + " "));
  CHECK(has(end.log, "[1/" + std::to_string(all.size()) + "] identity, seed 1: "));
  check_refused({"--all", "--codec", "identity"}, "excludes");
}

TEST_CASE("bytes of parts go to a rank each") {
  auto const job = digits(1);
  auto const bytes = train::predict(job, "two_shot(cast<half>)").bytes;
  CHECK(bytes.scattered == 4736 * 2);
  CHECK(bytes.gathered == 4736 * 2 / 4);
  CHECK(bytes.sent(4) == 3 * 4736 * 2 / 4 + 0.75 * 4736 * 2 + 1.5 * 74 * 4);
}

TEST_CASE("bytes that pairs of ranks swap leave as they are") {
  auto const job = digits(1);
  auto const bytes = train::predict(job, "g_top_k(0.01)").bytes;
  CHECK(bytes.passed > 0);
  CHECK(bytes.total() == bytes.passed + bytes.summed + bytes.gathered);
  CHECK(bytes.sent(4) == static_cast<double>(bytes.passed) + 3.0 * static_cast<double>(bytes.gathered) +
                             1.5 * static_cast<double>(bytes.summed));
}

TEST_CASE("a run writes tables, values and drawings") {
  temporary const directory;
  auto const [code, out, log] = train_command(
      {"--steps", "40", "--ranks", "2", "--seeds", "2", "--model", "convolutional", "--codec", "identity", "--codec",
       "ef(random_k(0.1)|cast<half>)", "--csv", directory / "a.csv", "--plot", directory / "b"});
  CHECK(code == 0);
  CHECK(lines(log) == 4);
  CHECK(has(out, "98.2 % of them"));
  CHECK(has(out,
            "\nidentity                         7592     7592    1.0 "));  // 1,898 floats; two ranks send half, twice
  auto const values = content(directory / "a.csv");
  CHECK(lines(values) == 3);
  CHECK(has(values, "\n\"ef(random_k(0.1)|cast<half>)\","));
  for (auto const* name : {"b/accuracy_over_epochs.svg", "b/accuracy_over_bytes.svg"}) {
    CHECK(has(content(directory / name), "ef(random_k(0.1)|cast"));
    CHECK(has(content(directory / name), "</svg>"));
  }
}

TEST_CASE("help goes to the output") {
  auto const [code, out, log] = train_command({"--help"});
  CHECK(code == 0);
  CHECK(has(out, "--codec"));
  CHECK(log.empty());
}
