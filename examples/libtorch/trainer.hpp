// trainer.hpp — trains a model on the ranks of MPI_COMM_WORLD.
#pragma once

#include "../train/reference_codecs.hpp"
#include "adaptive_averaging.hpp"
#include "averaging.hpp"
#include "checkpoint.hpp"
#include "dataset.hpp"
#include "dense_averaging.hpp"
#include "descent.hpp"
#include "gradiveq_averaging.hpp"
#include "images.hpp"
#include "losses.hpp"
#include "options.hpp"
#include "text.hpp"

#include <pith/comm/trace.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/runtime/mpi.hpp>

#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pith_libtorch {

/// A model and its data.
struct task {
  std::shared_ptr<network> model;
  std::unique_ptr<dataset> data;
};

inline task made_task(options const& o) {
  if (o.model == "gpt") {
    auto of = read_characters(o.data);
    auto model = std::make_shared<gpt>(gpt_size(), of.kinds);
    return {std::move(model), std::make_unique<text>(std::move(of), gpt_size().context, o.seed)};
  }
  if (o.model == "lstm") {
    auto of = read_words(o.data, lstm_words);
    auto model = std::make_shared<lstm>(of.kinds);
    return {std::move(model), std::make_unique<text>(std::move(of), lstm_context, o.seed)};
  }
  return {std::make_shared<resnet20>(), std::make_unique<images>(o.data, o.seed)};
}

/// The initial parameters depend on the seed alone.
inline task task_of(options const& o) {
  torch::set_num_threads(o.threads);
  torch::manual_seed(o.seed);
  auto made = made_task(o);
  if (o.is_bfloat16) made.model->to(torch::kBFloat16);
  return made;
}

/// --codec for matrices, but --codec-of for the parameters that it names.
inline codec_texts codecs_of(options const& o, named_tensors const& parameters) {
  auto named = std::map<std::string, std::string>();
  for (auto const& text : o.codec_of) {
    auto const end = text.find('=');
    auto const name = text.substr(0, end);
    if (end == text.npos) throw std::invalid_argument(fmt::format("--codec-of: must be NAME=CODEC, got {}", text));
    if (!parameters.contains(name))
      throw std::invalid_argument(fmt::format("--codec-of: the model has no parameter {}", name));
    named[name] = text.substr(end + 1);
  }
  return [named, others = matrices(o.codec)](pith::tensor_spec const& tensor) {
    auto const found = named.find(tensor.name);
    return found == named.end() ? others(tensor) : found->second;
  };
}

inline pith::any_communicator communicator_of(options const& o) {
  auto const made = o.is_pairwise ? pith::runtime::mpi_pairwise : pith::runtime::mpi;
  return made(MPI_COMM_WORLD, std::chrono::seconds(o.timeout));
}

class trainer {
 public:
  trainer(options const& o, place at)
      : options_(o),
        setting_(setting_of(o)),
        at_(at),
        comm_(communicator_of(o)),
        task_(task_of(o)),
        gradients_(averaging_of(o)),
        updates_(setting_, task_.model->parameters()) {
    if (setting_.batch % parts() == 0) return;
    throw std::invalid_argument(fmt::format("--batch: must be a multiple of {}, which is ranks x micro-steps, got {}",
                                            parts(), setting_.batch));
  }

  void run() {
    auto out = losses(options_.out, at_.rank == 0);
    auto const first = options_.resume.empty() ? 0 : checkpoint(options_.resume, at_).load(state());
    for (auto step = first; step <= setting_.steps; ++step) {
      auto const validation = validated(step);
      auto const begun = std::chrono::steady_clock::now();
      auto const training = train(step);
      seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
      out.write(step, seconds_, gradients_->sent_bytes(), training, validation);
      if (at_.rank == 0 && is_evaluated(step)) report(step);
      if (options_.fits_buckets && step == first + 1) gradients_->fit_buckets();
      if (!options_.save.empty() && (step + 1) % options_.save_every == 0) save(step + 1);
    }
    write_files();
  }

  /// Equal bits of the parameters give equal digests.
  std::uint64_t digest() {
    std::uint64_t all = 0;
    for (auto const& p : updates_.floats()) {
      auto const bytes = std::string_view(static_cast<char const*>(p.data_ptr()), p.nbytes());
      all = 31 * all + std::hash<std::string_view>()(bytes);
    }
    return all;
  }

 private:
  std::unique_ptr<averaging> averaging_of(options const& o) {
    if (!o.dense.empty()) return std::make_unique<dense_averaging>(task_.model->parameters(), o.dense == "bfloat16");
    auto const hooks = hook_options{
        .gradients = o.is_scattered ? layout::scattered : layout::flat,
        .is_overlapped = !o.has_no_overlap,
        .exchange = {.seed = o.seed, .bucket_bytes = o.bucket_bytes, .trace = o.trace.empty() ? nullptr : &trace_}};
    auto const of = task_.model->named_parameters();
    if (o.controller.name == "gradiveq")
      return std::make_unique<gradiveq_averaging>(comm_, at_, of, setting_.steps, hooks.exchange);
    if (!o.controller.name.empty()) return std::make_unique<adaptive_averaging>(comm_, at_, of, o.controller, hooks);
    if (o.is_bfloat16)
      return std::make_unique<compressed_averaging<pith::bfloat16>>(at_, comm_, of, codecs_of(o, of), hooks);
    if (auto const codec = train::reference_codec(o.codec)) return averaging_by(*codec, of, hooks);
    return std::make_unique<compressed_averaging<float>>(at_, comm_, of, codecs_of(o, of), hooks);
  }
  /// Matrices by a codec that has no text in pith::runtime.
  std::unique_ptr<averaging> averaging_by(train::any_codec const& codec, named_tensors const& of,
                                          hook_options const& hooks) {
    using exchange = pith::gradient_exchange<float, pith::seq_executor, pith::any_communicator>;
    auto const made = [&](std::vector<pith::tensor_spec> const& tensors) {
      return exchange(pith::seq, comm_, tensors, pith::matrices(codec), hooks.exchange);
    };
    return std::make_unique<compressed_averaging<float, exchange>>(at_, of, made, hooks);
  }
  std::int64_t parts() const { return at_.ranks * options_.micro_steps; }
  training_state state() { return {*task_.model, *task_.data, updates_, *gradients_}; }

  /// The ranks divide each batch, and each rank divides its part into micro-steps. Returns the mean loss of the rank.
  double train(std::int64_t step) {
    auto const batch = task_.data->draw("training", setting_.batch);
    auto const x = batch.x.chunk(parts()), y = batch.y.chunk(parts());
    auto const first = at_.rank * options_.micro_steps, last = first + options_.micro_steps - 1;
    seed_dropout(step);
    gradients_->set_learning_rate(learning_rate(setting_, step));
    gradients_->zero_grad();
    auto total = 0.0;
    for (auto part = first; part <= last; ++part) {
      auto const i = static_cast<std::size_t>(part);
      auto const loss = task_.model->loss({x[i], y[i]}) / options_.micro_steps;
      part < last ? gradients_->accumulate(loss) : gradients_->backward(loss);
      total += loss.item<double>();
    }
    updates_.step(step);
    return total;
  }
  /// A function of the seed, the step and the rank, so that a checkpoint needs no random state of a rank.
  void seed_dropout(std::int64_t step) const {
    auto const number = options_.seed * 1'000'003 + static_cast<std::uint64_t>(step);
    torch::manual_seed(number * 65'536 + static_cast<std::uint64_t>(at_.rank));
  }

  bool is_evaluated(std::int64_t step) const {
    if (options_.evaluate_every == 0) return false;
    return step % options_.evaluate_every == 0 || step == setting_.steps;
  }
  /// Rank 0 validates while the others wait, so that the time of no step contains the validation.
  std::vector<double> validated(std::int64_t step) {
    if (!is_evaluated(step)) return {};
    auto const losses = at_.rank == 0 ? validate() : std::vector<double>();
    MPI_Barrier(MPI_COMM_WORLD);
    gradients_->restart_clock();
    return losses;
  }
  /// The losses of 20 random batches and of the whole validation split.
  std::vector<double> validate() {
    auto drawn = std::vector<samples>();
    for (int i = 0; i < 20; ++i) drawn.push_back(task_.data->draw("validation", setting_.batch));
    return {mean_loss(drawn), mean_loss(task_.data->validation())};
  }
  double mean_loss(std::vector<samples> const& parts) {
    auto const guard = torch::NoGradGuard();
    task_.model->eval();
    auto total = 0.0, n = 0.0;
    for (auto const& part : parts) {
      auto const size = static_cast<double>(part.x.size(0));
      total += size * task_.model->loss(part).item<double>();
      n += size;
    }
    task_.model->train();
    return total / n;
  }

  void report(std::int64_t step) {
    if (options_.report.empty()) return;
    auto file = std::ofstream(options_.report, step == 0 ? std::ios::trunc : std::ios::app);
    gradients_->report(file, {{"step", step}, {"rank", at_.rank}});
  }
  void write_files() const {
    if (at_.rank != 0) return;
    if (!options_.trace.empty()) std::ofstream(options_.trace) << trace_.json();
    if (!options_.decisions.empty()) gradients_->write_decisions(options_.decisions);
  }
  void save(std::int64_t next_step) {
    checkpoint(options_.save / std::to_string(next_step), at_).save(state(), next_step);
  }

  options options_;
  setting setting_;
  place at_;
  pith::exchange_trace trace_;
  pith::any_communicator comm_;
  task task_;
  std::unique_ptr<averaging> gradients_;
  descent updates_;
  double seconds_ = 0;
};

}  // namespace pith_libtorch
