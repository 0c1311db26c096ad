// examples/train/study.hpp — cross-validation: does a codec learn less than dense bfloat16?
#pragma once

#include "report.hpp"

#include <fmt/format.h>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/zip_with.hpp>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace train {

inline constexpr std::size_t folds = 5;

/// The images of both, those of `b` last.
inline dataset joined(dataset const& a, dataset const& b) {
  auto all = a;
  all.images.insert(all.images.end(), b.images.begin(), b.images.end());
  all.labels.insert(all.labels.end(), b.labels.begin(), b.labels.end());
  return all;
}

/// A codec, and its accuracy for each fold and seed, in the same order for all codecs.
struct studied_codec {
  std::string codec;
  std::vector<double> accuracies;
};

/// The codecs of the study, first the one that the others are compared with.
inline std::vector<studied_codec> studied(options const& o) {
  std::vector<studied_codec> codecs{{dense_bfloat16, {}}};
  for (auto const& codec : o.codecs)
    if (codec != dense_bfloat16) codecs.push_back({codec, {}});
  return codecs;
}

inline void add_fold(studied_codec& of, task const& job, options const& o, progress& shown) {
  auto net = job.net;
  for (unsigned i = 0; i < o.number_of_seeds(); ++i) {
    auto const seen = run_shown(job, of.codec, o.seed + i, shown);
    of.accuracies.push_back(accuracy(net, job.data.test, seen.result()));
    shown.end(of.accuracies.back());
  }
}

inline std::vector<studied_codec> cross_validate(dataset const& all, options const& o, std::FILE* log) {
  auto codecs = studied(o);
  progress shown(log, folds * codecs.size() * o.number_of_seeds());
  for (std::size_t part = 0; part < folds; ++part) {
    auto const job = make_task(o, fold(all, part, folds));
    for (auto& codec : codecs) add_fold(codec, job, o, shown);
  }
  return codecs;
}

inline std::vector<double> differences(std::vector<double> const& a, std::vector<double> const& b) {
  return ranges::views::zip_with(std::minus<>(), a, b) | ranges::to<std::vector>();
}

inline constexpr auto study_notes =
    R"(Differences are paired by fold and seed. Student's intervals assume that all {} are
independent. Folds share training images, so they are not fully independent.
)";

inline void print_study(std::FILE* out, std::vector<studied_codec> const& codecs) {
  fmt::print(out, "{:28} {:>8}  {:>25}\n", "", "accuracy", "points from bfloat16");
  fmt::print(out, "{:28} {:>8}  {:>6}  {:>17}\n", "codec", "test, %", "mean", "95 % interval");
  for (auto const& [codec, accuracies] : codecs) {
    auto const points = differences(accuracies, codecs.front().accuracies);
    auto const [low, high] = confidence(points);
    fmt::print(out, "{:28} {:8.2f}  {:+6.2f}  [{:+6.2f}, {:+6.2f}]\n", codec, 100 * mean(accuracies),
               100 * mean(points), 100 * low, 100 * high);
  }
  fmt::print(out, study_notes, codecs.front().accuracies.size());
}

inline void study(options const& o, split const& data, std::FILE* out, std::FILE* log) {
  print_task(out, make_task(o, data), o);
  fmt::print(out, "{}-fold cross-validation of all images\n\n", folds);
  print_study(out, cross_validate(joined(data.train, data.test), o, log));
}

}  // namespace train
