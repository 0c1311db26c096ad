// examples/train/options.hpp — the command line.
#pragma once

#include "codecs.hpp"

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace train {

struct options {
  std::filesystem::path data = PITH_TRAIN_DATA, csv, plot;
  std::string model = "mlp", executor = "seq";
  std::vector<std::string> codecs, controllers;
  unsigned ranks = 4;
  std::size_t steps = 1800, batch = 8;
  float learning_rate = 0.02f, momentum = 0.9f;
  unsigned seeds = 0;  // 0: as many as the kind of run has by default
  std::uint64_t seed = 1;
  bool list = false, all = false, study = false, check = false;

  unsigned number_of_seeds() const { return seeds > 0 ? seeds : study ? 5 : all ? 1 : 3; }
};

inline void add_training(CLI::App& app, options& o) {
  app.add_option("--data", o.data,
                 "directory of digits.csv, of IDX files (MNIST and its kin) or of CIFAR-10's binary files")
      ->check(CLI::ExistingDirectory);
  app.add_option("--model", o.model)->check(CLI::IsMember({"mlp", "convolutional"}))->capture_default_str();
  app.add_option(
         "--executor", o.executor,
         "where codecs run: par is a pool of threads, cuda one device per rank with NCCL; both have few codecs")
      ->check(CLI::IsMember({"seq", "par", "cuda"}))
      ->capture_default_str();
  app.add_option("--ranks", o.ranks, "threads that train together")->check(CLI::Range(2, 64))->capture_default_str();
  app.add_option("--steps", o.steps)->check(CLI::Range(1, 1'000'000'000))->capture_default_str();
  app.add_option("--batch", o.batch, "images per rank and step")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--learning-rate", o.learning_rate)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--momentum", o.momentum)->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app.add_option("--seeds", o.seeds, "trainings per codec [3; 5 in a study; 1 with --all]")->check(CLI::Range(1, 1000));
  app.add_option("--seed", o.seed, "the first seed")->capture_default_str();
}

inline void add_outputs(CLI::App& app, options& o) {
  auto* const codecs =
      app.add_option("--codec", o.codecs, "a codec to compare, such as 'ef(top_k(0.01)|qsgd<8>)'; repeatable");
  codecs->allow_extra_args(false);
  auto* const adapt = app.add_option(
      "--adapt", o.controllers,
      "a controller that chooses the density of top_k: gravac, accordion or fixed; or gradiveq, a schedule "
      "of phases for convolutions; "
      "repeatable, and compared with two densities and bfloat16 unless codecs are given");
  adapt->allow_extra_args(false)->check(CLI::IsMember({"gravac", "accordion", "fixed", "gradiveq"}));
  auto* const csv = app.add_option("--csv", o.csv, "a file for the tables");
  auto* const plot = app.add_option("--plot", o.plot, "a directory for accuracy over epochs and over bytes, as SVG");
  auto* const check = app.add_flag("--check", o.check, "fail if the default codecs do not learn as they should");
  auto* const study =
      app.add_flag("--study", o.study, "cross-validate: 95 % intervals of the difference from bfloat16");
  app.add_flag("--list", o.list, "print the codecs, and GRACE's methods with their memories");
  auto* const all = app.add_flag("--all", o.all, "train with everything that --list prints");
  check->excludes(codecs)->excludes(adapt)->excludes(study);
  all->excludes(codecs)->excludes(adapt)->excludes(plot)->excludes(check)->excludes(study);
  study->excludes(csv)->excludes(plot);
}

/// Throws CLI::ParseError, also for --help.
inline options parse_options(CLI::App& app, int argc, char const* const* argv) {
  options o;
  add_training(app, o);
  add_outputs(app, o);
  app.parse(argc, argv);
  if (o.codecs.empty() && o.executor != "seq") o.codecs = few_codecs();
  if (o.codecs.empty()) o.codecs = o.controllers.empty() ? default_codecs() : codecs_beside_controllers();
  o.codecs.insert(o.codecs.end(), o.controllers.begin(), o.controllers.end());
  return o;
}

}  // namespace train
