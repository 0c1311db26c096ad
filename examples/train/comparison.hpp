// examples/train/comparison.hpp — trains with several codecs and seeds, and collects the results.
#pragma once

#include "controllers.hpp"
#include "options.hpp"
#include "prediction.hpp"
#include "progress.hpp"
#include "statistics.hpp"
#include "trainer.hpp"

#include <fmt/format.h>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/transform.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace train {

/// The accuracy on the test images after some steps.
struct point {
  std::size_t steps;
  double accuracy;
};

/// One training.
struct outcome {
  std::vector<point> curve;
  double loss;  // on the training images, at the end
  phases mean;
  pith::traffic bytes{};  // of all steps
  std::vector<decided_step> decided = {};

  double accuracy() const { return curve.back().accuracy; }
};

/// The trainings of one codec, one per seed.
struct trial {
  std::string codec;
  prediction predicted;
  std::vector<outcome> runs;

  template <class F>
  std::vector<double> each(F const& of) const {
    return runs | ranges::views::transform(of) | ranges::to<std::vector>();
  }

  std::vector<double> accuracies() const { return each(&outcome::accuracy); }
  double accuracy() const { return mean(accuracies()); }
  double loss() const { return mean(each(&outcome::loss)); }

  /// The mean of the curves, whose points have the same steps.
  std::vector<point> curve() const {
    auto points = runs.front().curve;
    for (std::size_t i = 0; i < points.size(); ++i)
      points[i].accuracy = mean(each([i](outcome const& run) { return run.curve[i].accuracy; }));
    return points;
  }

  phases time() const {
    phases sum;
    for (auto const& run : runs) sum += run.mean;
    return sum / static_cast<double>(runs.size());
  }
};

inline task make_task(options const& o, split data) {
  auto const net = make_network(o.model, data.train);
  if (data.train.size() < o.ranks * o.batch)
    throw std::invalid_argument(fmt::format("train: {} ranks x {} images are more than the {} for training", o.ranks,
                                            o.batch, data.train.size()));
  return {std::move(data),      net,       o.ranks, o.steps, o.batch, o.learning_rate, o.momentum,
          pith::gather::padded, o.executor};
}

inline history run_shown(task const& job, std::string const& codec, std::uint64_t seed, progress& shown) {
  shown.begin(fmt::format("{}, seed {}", codec, seed));
  return run(job, codec, seed,
             [&](std::size_t steps) { shown.at(static_cast<double>(steps) / static_cast<double>(job.steps)); });
}

inline outcome judge(task const& job, history const& seen) {
  auto net = job.net;
  auto const judged = [&](snapshot const& s) { return point{s.steps, accuracy(net, job.data.test, s.parameters)}; };
  return {seen.snapshots | ranges::views::transform(judged) | ranges::to<std::vector>(),
          loss(net, job.data.train, seen.result()), seen.mean, seen.bytes, seen.decided};
}

inline void add_run(trial& of, task const& job, std::uint64_t seed, progress& shown) {
  of.runs.push_back(judge(job, run_shown(job, of.codec, seed, shown)));
  shown.end(of.runs.back().accuracy());
}

/// Per step, over all steps.
inline pith::traffic mean_bytes(trial const& of, std::size_t steps) {
  auto sum = pith::traffic{};
  for (auto const& run : of.runs) sum += run.bytes;
  return sum / (steps * of.runs.size());
}

/// Predicts first, which takes little time and throws if the codec does not fit.
inline std::vector<trial> compare(task const& job, options const& o, progress& shown) {
  std::vector<trial> trials;
  for (auto const& codec : o.codecs) trials.push_back({codec, predict(job, codec), {}});
  for (auto& trial : trials)
    for (unsigned i = 0; i < o.number_of_seeds(); ++i) add_run(trial, job, o.seed + i, shown);
  for (auto& trial : trials)
    if (is_controller(trial.codec)) trial.predicted.bytes = mean_bytes(trial, job.steps);
  return trials;
}
inline std::vector<trial> compare(task const& job, options const& o, std::FILE* log) {
  progress shown(log, o.codecs.size() * o.number_of_seeds());
  return compare(job, o, shown);
}

}  // namespace train
