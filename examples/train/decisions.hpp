// examples/train/decisions.hpp — the decisions of controllers, as a table and as a drawing.
#pragma once

#include "controllers.hpp"
#include "plot.hpp"
#include "report.hpp"

#include <fmt/format.h>
#include <range/v3/algorithm/any_of.hpp>
#include <range/v3/view/enumerate.hpp>
#include <range/v3/view/filter.hpp>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace train {

inline constexpr double slow_rates[] = {1, 5, 10};  // Gbit/s

inline bool has_decisions(std::vector<trial> const& trials) {
  return ranges::any_of(trials, is_controller, &trial::codec);
}

/// The trials that have decisions.
inline auto with_decisions(std::vector<trial> const& trials) {
  return ranges::views::filter(trials, is_controller, &trial::codec);
}

inline constexpr auto decisions_notes =
    R"(sent: by a rank in the whole training. s: of the whole training, each step as predicted above for its mean bytes.
)";

inline void print_decisions(std::FILE* out, task const& job, std::vector<trial> const& trials) {
  auto const width = codec_width(trials);
  auto const steps = static_cast<double>(job.steps);
  fmt::print(out, "\n{:{}} {:>13} {:>9} {:>7} {:>26}\n", "", width, "accuracy", "sent", "", "s at this many Gbit/s");
  fmt::print(out, "{:{}} {:>13} {:>9} {:>7}", "codec or controller", width, "test, %", "MB", "ratio");
  for (auto const rate : slow_rates) fmt::print(out, " {:>8}", rate);
  for (auto const& t : trials) {
    auto const sent = t.predicted.sent();
    fmt::print(out, "\n{:{}} {:5.2f} +- {:4.2f} {:9.2f} {:7.1f}", t.codec, width, 100 * t.accuracy(),
               100 * standard_deviation(t.accuracies()), steps * sent / 1e6, dense_bytes(job) / sent);
    for (auto const rate : slow_rates) fmt::print(out, " {:8.3f}", steps * t.predicted.step(rate));
  }
  fmt::print(out, "\n{}", decisions_notes);
}

/// Steps, factors, gains and images per second of the first seed: one block per controller.
inline void write_decisions(std::FILE* script, task const& job, std::vector<trial> const& trials) {
  fmt::print(script, "$decisions << end\n");
  for (auto const& t : with_decisions(trials)) {
    for (auto const& d : t.runs.front().decided)
      fmt::print(script, "{} {} {} {}\n", d.step, d.factor, d.gain,
                 static_cast<double>(job.ranks * job.batch) / d.seconds);
    fmt::print(script, "\n\n");
  }
  fmt::print(script, "end\n");
}

struct decision_panel {
  char const *title, *settings;
  int column;
};

inline void write_panel(std::FILE* script, std::vector<trial> const& trials, decision_panel const& panel) {
  fmt::print(script, "set ylabel '{}'\n{}\nplot", panel.title, panel.settings);
  for (auto const& [i, t] : ranges::views::enumerate(with_decisions(trials)))
    fmt::print(script, "{} \\\n  $decisions index {} using 1:{} with lines title '{}'", i == 0 ? "" : ",", i,
               panel.column, t.codec);
  fmt::print(script, "\n");
}

inline constexpr auto decisions_style = R"(
set terminal svg size 1150,900 noenhanced font 'sans,15' background 'white'
set key outside right top Left reverse samplen 3
set grid
set xrange [*:*] noextend
set output 'decisions.svg'
set multiplot layout 3,1
)";

/// Writes decisions.svg, and its script decisions.gp.
inline void plot_decisions(std::filesystem::path const& directory, task const& job, std::vector<trial> const& trials) {
  {
    auto const script = open_to_write(directory / "decisions.gp");
    write_decisions(script.get(), job, trials);
    write_lines(script.get());
    fmt::print(script.get(), "{}", decisions_style);
    for (auto const& panel :
         {decision_panel{"factor", "set logscale y", 2}, decision_panel{"gain", "unset logscale y", 3},
          decision_panel{"images/s", "set xlabel 'steps'", 4}})
      write_panel(script.get(), trials, panel);
    fmt::print(script.get(), "unset multiplot\nset output\n");
  }
  draw(directory, "decisions.gp");
}

/// The path of the comparison's table, with -decisions before the extension.
inline std::filesystem::path decisions_beside(std::filesystem::path name) {
  return name.replace_filename(name.stem().string() + "-decisions" + name.extension().string());
}

inline void write_decisions_csv(std::FILE* file, std::vector<trial> const& trials) {
  fmt::print(file, "controller,seed,step,factor,gain,seconds\n");
  for (auto const& t : trials) {
    for (auto const& [seed, run] : ranges::views::enumerate(t.runs)) {
      for (auto const& d : run.decided)
        fmt::print(file, "{},{},{},{},{},{:.6g}\n", t.codec, seed, d.step, d.factor, d.gain, d.seconds);
    }
  }
}

}  // namespace train
