// examples/train/command.hpp — the program, from its arguments to its exit code.
#pragma once

#include "all.hpp"
#include "check.hpp"
#include "codec_of.hpp"
#include "controllers.hpp"
#include "decisions.hpp"
#include "listed.hpp"
#include "load.hpp"
#include "options.hpp"
#include "plot.hpp"
#include "report.hpp"
#include "study.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <utility>

namespace train {

inline int print_list(std::FILE* out) {
  fmt::print(out, "Codecs, by examples:\n\n");
  for (auto const& word : codec_words()) fmt::print(out, "{:42}  {}\n", word.example, word.meaning);
  fmt::print(out, "\n{}\nGRACE's methods, with the memories that it gives them:\n\n", not_by_text);
  for (auto const& m : methods) fmt::print(out, "{:42}  {}\n", m.codec, m.name);
  return 0;
}

/// Opens the output files before the trainings begin.
struct outputs {
  written_file csv{nullptr, &std::fclose}, decisions{nullptr, &std::fclose};

  explicit outputs(options const& o) {
    if (!o.csv.empty()) csv = open_to_write(o.csv);
    if (!o.csv.empty() && !o.controllers.empty()) decisions = open_to_write(decisions_beside(o.csv));
    if (o.plot.empty()) return;
    require_gnuplot();
    create_directories(o.plot);
  }
};

/// Returns whether all checked conditions hold.
inline bool compare_and_report(options const& o, split data, std::FILE* out, std::FILE* log) {
  outputs const files(o);
  auto const job = make_task(o, std::move(data));
  auto const trials = o.all ? train_by_all(o, job.data, log) : compare(job, o, log);
  print_report(out, job, o, trials);
  if (has_decisions(trials)) print_decisions(out, job, trials);
  if (files.decisions) write_decisions_csv(files.decisions.get(), trials);
  if (has_decisions(trials) && !o.plot.empty()) plot_decisions(o.plot, job, trials);
  if (files.csv) write_csv(files.csv.get(), job, trials);
  if (!o.plot.empty()) plot(o.plot, job, trials);
  return !o.check || check(out, job, trials);
}

inline int run_command(options const& o, std::FILE* out, std::FILE* log) {
  if (o.list) return print_list(out);
  require_executor(o.executor);
  for (auto const& codec : o.codecs)
    if (!is_controller(codec)) codec_of(codec);
  auto data = load(o.data);
  if (!o.study) return compare_and_report(o, std::move(data), out, log) ? 0 : 1;
  study(o, data, out, log);
  return 0;
}

/// Prints results to `out`, progress and one line for any error to `log`.
inline int command(int argc, char const* const* argv, std::FILE* out, std::FILE* log) {
  CLI::App app("Trains a small network on several ranks, and compares codecs for their gradients.", "train");
  try {
    return run_command(parse_options(app, argc, argv), out, log);
  } catch (CLI::CallForHelp const&) {
    fmt::print(out, "{}", app.help());
    return 0;
  } catch (CLI::ParseError const& error) {
    fmt::print(log, "train: {}\n", error.what());
  } catch (std::filesystem::filesystem_error const& error) {
    fmt::print(log, "train: {}\n", error.what());
  } catch (std::exception const& error) {
    fmt::print(log, "{}\n", error.what());
  }
  return 1;
}

}  // namespace train
