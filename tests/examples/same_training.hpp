// tests/examples/same_training.hpp — trainings on an executor beside the same on seq.
#pragma once

#include "../../examples/train/comparison.hpp"
#include "../../examples/train/load.hpp"

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace same_training {

/// What the ranks have after each step, and the loss at the end.
struct outcome {
  std::vector<std::vector<float>> parameters;
  double loss;

  bool operator==(outcome const&) const = default;
};

inline outcome of(std::string const& executor, std::string const& codec, std::size_t steps, unsigned ranks = 4) {
  auto o = train::options();
  o.executor = executor, o.steps = steps, o.ranks = ranks;
  auto const job = train::make_task(o, train::load(o.data));
  auto const seen = train::run(job, codec, 1, [](std::size_t) {});
  auto all = outcome{{}, train::judge(job, seen).loss};
  for (auto const& s : seen.snapshots) all.parameters.push_back(s.parameters);
  return all;
}

inline void check(std::string const& executor, std::size_t steps, unsigned ranks = 4) {
  for (auto const& codec : train::few_codecs()) {
    CAPTURE(codec);
    auto const seen = of(executor, codec, steps, ranks);
    CHECK(seen.parameters.size() == steps);
    CHECK(seen == of("seq", codec, steps, ranks));
  }
}

}  // namespace same_training
