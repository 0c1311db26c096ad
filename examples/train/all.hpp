// examples/train/all.hpp — every method of the library, with a learning rate and a momentum for each.
#pragma once

#include "comparison.hpp"
#include "listed.hpp"
#include "methods.hpp"

#include <range/v3/algorithm/contains.hpp>

#include <cstdio>
#include <iterator>
#include <string_view>
#include <vector>

namespace train {

/// GRACE's methods, then the other codecs of --list.
inline std::vector<method> all_methods() {
  std::vector<method> all(std::begin(methods), std::end(methods));
  for (auto const& word : codec_words()) {
    if (!ranges::contains(all, std::string_view(word.example), &method::codec))
      all.push_back({word.example, word.example, "", word.rate, word.momentum});
  }
  return all;
}

/// The trainings of a method. Payloads of variable rate have their own size, and the bytes are means over the steps.
inline trial train_by(method const& m, options o, split const& data, progress& shown) {
  o.codecs = {m.codec};
  o.learning_rate *= m.rate;
  o.momentum *= m.momentum;
  auto job = make_task(o, data);
  job.gather_mode = pith::gather::exact;
  auto trial = compare(job, o, shown).front();
  trial.predicted.bytes = mean_bytes(trial, o.steps);
  return trial;
}

inline std::vector<trial> train_by_all(options const& o, split const& data, std::FILE* log) {
  auto const all = all_methods();
  progress shown(log, all.size() * o.number_of_seeds());
  std::vector<trial> trials;
  for (auto const& m : all) trials.push_back(train_by(m, o, data, shown));
  return trials;
}

}  // namespace train
