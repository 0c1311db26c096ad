// benchmarks/grace/main.cpp — the figures of GRACE's evaluation, as comma-separated values; run.sh draws them.
//
//   grace latency [--log2n N]... [--rounds N] [--method NAME]...
//   grace quality [--model NAME] [--data DIR] [--steps N] [--seeds N] [--method NAME]...
//   grace throughput [--ranks N] [--compute SECONDS] [--steps N] [--method NAME]...
#include "../resnet50.hpp"
#include "latency.hpp"
#include "quality.hpp"
#include "throughput.hpp"

#include "../../examples/train/load.hpp"

#include <CLI/CLI.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/enumerate.hpp>
#include <range/v3/view/transform.hpp>

#include <cstdio>
#include <exception>
#include <set>
#include <string>
#include <vector>

namespace {

std::vector<pith::tensor_spec> resnet50_tensors() {
  auto tensors = std::vector<pith::tensor_spec>();
  for (auto const& [i, dims] : ranges::views::enumerate(bench::resnet50.shapes()))
    tensors.push_back({std::to_string(i), dims});
  return tensors;
}

template <class List>
std::set<std::string> names_of(List const& list) {
  auto const name_of = [](auto const& m) { return std::string(m.name); };
  return list | ranges::views::transform(name_of) | ranges::to<std::set<std::string>>();
}

template <class List>
void add_methods(CLI::App& command, std::vector<std::string>& methods, List const& list) {
  command.add_option("--method", methods, "only these; repeatable")
      ->check(CLI::IsMember(names_of(list)))
      ->allow_extra_args(false);
}

void add_latency(CLI::App& app, grace::latency_options& o) {
  auto& command = *app.add_subcommand("latency", "compressing and decompressing, in copies of the tensor");
  add_methods(command, o.methods, bench::catalogue);
  command.add_option("--log2n", o.sizes, "2^N elements; repeatable")
      ->check(CLI::Range(10, 26))
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--rounds", o.rounds)->check(CLI::Range(1, 100'000))->capture_default_str();
  command.final_callback([&o] { grace::write_latency(stdout, o); });
}

void add_quality(CLI::App& app, train::options& o, std::vector<std::string>& methods) {
  auto& command = *app.add_subcommand("quality", "accuracy, data volume and throughput of trainings");
  add_methods(command, methods, grace::methods);
  command.add_option("--data", o.data, "as in the training example")->check(CLI::ExistingDirectory);
  command.add_option("--model", o.model)->check(CLI::IsMember({"mlp", "convolutional"}))->capture_default_str();
  command.add_option("--ranks", o.ranks)->check(CLI::Range(2, 64))->capture_default_str();
  command.add_option("--steps", o.steps)->check(CLI::Range(1, 1'000'000'000))->capture_default_str();
  command.add_option("--seeds", o.seeds, "trainings per method [3]")->check(CLI::Range(1, 1000));
  command.final_callback([&] { grace::write_quality(stdout, stderr, methods, o, train::load(o.data)); });
}

void add_throughput(CLI::App& app, grace::throughput_options& o) {
  auto& command = *app.add_subcommand("throughput", "steps per second of ResNet-50 over link rates");
  add_methods(command, o.methods, grace::methods);
  command.add_option("--ranks", o.ranks)->check(CLI::Range(2, 64))->capture_default_str();
  command.add_option("--compute", o.compute, "seconds of computing per step")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--steps", o.steps, "measured steps per method")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.final_callback([&o] { grace::write_throughput(stdout, resnet50_tensors(), o); });
}

}  // namespace

int main(int argc, char** argv) {
  auto app = CLI::App("The figures of GRACE's evaluation, as comma-separated values.", "grace");
  auto latency = grace::latency_options();
  auto training = train::options();
  auto trained = std::vector<std::string>();
  auto throughput = grace::throughput_options();
  add_latency(app, latency);
  add_quality(app, training, trained);
  add_throughput(app, throughput);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "grace: %s\n", error.what());
  }
  return 1;
}
