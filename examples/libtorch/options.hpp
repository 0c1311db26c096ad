// options.hpp — the command line.
#pragma once

#include "adaptive_averaging.hpp"
#include "gpt.hpp"
#include "lstm.hpp"
#include "resnet.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pith_libtorch {

struct options {
  std::string model = "gpt", codec = "identity", dense;
  std::filesystem::path data, out, report, trace, save, resume, decisions;
  std::vector<std::string> codec_of;
  controller_options controller;
  std::optional<std::int64_t> steps, batch;
  std::optional<std::string> optimizer;
  std::optional<double> learning_rate, momentum, weight_decay, clip;
  std::optional<std::size_t> bucket_bytes;
  std::int64_t micro_steps = 1, evaluate_every = 250, save_every = 100;
  std::uint64_t seed = 1;
  int threads = 1, timeout = 1800;
  bool is_scattered = false, has_no_overlap = false, is_bfloat16 = false, fits_buckets = false, is_pairwise = false;
};

inline void add_training(CLI::App& app, options& o) {
  app.add_option("--model", o.model)->check(CLI::IsMember({"gpt", "lstm", "resnet"}))->capture_default_str();
  app.add_option("--data", o.data,
                 "gpt: a text; lstm: a folder with train.txt and valid.txt; resnet: one with CIFAR-10")
      ->required()
      ->check(CLI::ExistingPath);
  app.add_option("--steps", o.steps)->check(CLI::PositiveNumber);
  app.add_option("--batch", o.batch, "samples of all ranks together")->check(CLI::PositiveNumber);
  app.add_option("--micro-steps", o.micro_steps, "backward passes per step, each on a part of the batch")
      ->check(CLI::PositiveNumber);
  app.add_option("--optimizer", o.optimizer)->check(CLI::IsMember({"adamw", "sgd"}));
  app.add_option("--learning-rate", o.learning_rate)->check(CLI::PositiveNumber);
  app.add_option("--momentum", o.momentum)->check(CLI::Range(0.0, 1.0));
  app.add_option("--weight-decay", o.weight_decay)->check(CLI::NonNegativeNumber);
  app.add_option("--clip", o.clip, "the largest norm of the mean gradient; 0: any")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", o.seed)->capture_default_str();
  app.add_option("--threads", o.threads, "of libtorch, per rank")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_flag("--bfloat16", o.is_bfloat16, "parameters and gradients of bfloat16; the optimizer keeps floats");
}

inline void add_exchange(CLI::App& app, options& o) {
  app.add_option("--codec", o.codec, "the codec of matrices, such as 'ef(power_sgd(4))'")->capture_default_str();
  app.add_option("--codec-of", o.codec_of, "NAME=CODEC: the codec of one parameter, such as tokens.weight=identity");
  app.add_flag("--scattered", o.is_scattered, "a tensor per gradient, not one buffer");
  app.add_flag("--no-overlap", o.has_no_overlap, "begin the exchange after backward");
  app.add_flag("--fit-buckets", o.fits_buckets, "compute buckets from the times of the second step");
  app.add_flag("--pairwise", o.is_pairwise, "collectives as swaps between pairs of ranks, faster on slow links");
  app.add_option("--bucket-bytes", o.bucket_bytes)->check(CLI::PositiveNumber);
  app.add_option("--timeout", o.timeout, "seconds until a lost rank is an error")->check(CLI::PositiveNumber);
  auto* const adapted = app.add_option("--controller", o.controller.name,
                                       "chooses the density of top_k in each step, in place of --codec; or gradiveq");
  adapted->check(CLI::IsMember({"gravac", "gravac_by_gradients", "accordion", "gradiveq"}));
  for (auto const* other : {"--bfloat16", "--codec", "--codec-of", "--fit-buckets"}) adapted->excludes(other);
  auto const option = [&](auto const* name, auto& value, auto const* text) {
    return app.add_option(name, value, text)->needs(adapted);
  };
  option("--min-gain", o.controller.min_gain, "of gravac and gravac_by_gradients")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  option("--window", o.controller.window, "steps between two decisions; not of gradiveq")->check(CLI::PositiveNumber);
  option("--decisions", o.decisions, "a CSV file of the controller's decisions");
  auto* const dense = app.add_option("--dense", o.dense, "one MPI_Allreduce after backward, in place of the exchange");
  dense->check(CLI::IsMember({"float", "bfloat16"}));
  for (auto const* other : {"--bfloat16", "--codec", "--codec-of", "--scattered", "--no-overlap", "--fit-buckets",
                            "--pairwise", "--bucket-bytes", "--timeout", "--report", "--trace", "--controller"})
    dense->excludes(other);
}

inline void add_files(CLI::App& app, options& o) {
  app.add_option("--out", o.out, "a CSV file of losses; default: standard output");
  app.add_option("--evaluate-every", o.evaluate_every, "steps between validations; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--report", o.report, "a file for bytes and times per tensor, as JSON lines, at each validation");
  app.add_option("--trace", o.trace, "a file for the rounds of rank 0's exchange, for chrome://tracing");
  app.add_option("--save", o.save, "a folder for checkpoints; each is a folder named by its step");
  app.add_option("--save-every", o.save_every)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--resume", o.resume, "a checkpoint, of any number of ranks")->check(CLI::ExistingDirectory);
}

/// Throws CLI::ParseError, also for --help.
inline options parse_options(CLI::App& app, int argc, char const* const* argv) {
  options o;
  add_training(app, o);
  add_files(app, o);
  add_exchange(app, o);
  app.parse(argc, argv);
  return o;
}

/// The setting of a model, with the changes of the command line.
inline setting setting_of(options const& o) {
  auto of = o.model == "gpt" ? gpt_setting : o.model == "lstm" ? lstm_setting : resnet_setting;
  of.min_rate *= o.learning_rate.value_or(of.learning_rate) / of.learning_rate;
  of.learning_rate = o.learning_rate.value_or(of.learning_rate);
  of.optimizer = o.optimizer.value_or(of.optimizer);
  of.momentum = o.momentum.value_or(of.momentum);
  of.weight_decay = o.weight_decay.value_or(of.weight_decay);
  of.clip = o.clip.value_or(of.clip);
  of.batch = o.batch.value_or(of.batch);
  of.steps = o.steps.value_or(of.steps);
  return of;
}

}  // namespace pith_libtorch
