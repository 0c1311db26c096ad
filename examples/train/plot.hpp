// examples/train/plot.hpp — test accuracy over epochs and over bytes, drawn by gnuplot.
#pragma once

#include "comparison.hpp"

#include <fmt/format.h>
#include <range/v3/algorithm/max.hpp>
#include <range/v3/view/enumerate.hpp>
#include <range/v3/view/transform.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace train {

using written_file = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

inline written_file open_to_write(std::filesystem::path const& name) {
  written_file opened(std::fopen(name.c_str(), "w"), &std::fclose);
  if (!opened) throw std::runtime_error("train: cannot write " + name.string());
  return opened;
}

inline void require_gnuplot() {
  if (std::system("gnuplot --version > /dev/null 2>&1") != 0)
    throw std::runtime_error("train: --plot needs gnuplot, which is not there (Debian: apt-get install gnuplot-nox)");
}

/// Epochs, megabytes sent by a rank and accuracy in %: one block per codec.
inline void write_points(std::FILE* script, task const& job, std::vector<trial> const& trials) {
  fmt::print(script, "$accuracy << end\n");
  for (auto const& t : trials) {
    for (auto const& [steps, accuracy] : t.curve())
      fmt::print(script, "{} {} {}\n", job.epochs(steps), static_cast<double>(steps) * t.predicted.sent() / 1e6,
                 100 * accuracy);
    fmt::print(script, "\n\n");
  }
  fmt::print(script, "end\n");
}

/// The lower end of the drawings: codecs differ near the top, and the first epochs would take most of the space.
inline double lowest_shown(std::vector<trial> const& trials) {
  auto const best = ranges::max(trials | ranges::views::transform(&trial::accuracy));
  return std::max(0.0, 5 * std::floor((100 * best - 25) / 5));
}

/// Every second line is dashed, as most lines overlap at the end.
inline void write_lines(std::FILE* script) {
  constexpr char const* colours[] = {"#000000", "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e",
                                     "#9467bd", "#17becf", "#8c564b", "#e377c2", "#bcbd22"};
  for (auto const& [i, colour] : ranges::views::enumerate(colours))
    fmt::print(script, "set linetype {} linewidth 2 linecolor rgb '{}' dashtype {}\n", i + 1, colour,
               i % 2 == 0 ? "1" : "(8,4)");
  fmt::print(script, "set linetype cycle {}\n", std::size(colours));
}

inline constexpr auto style = R"(
set terminal svg size 1150,600 noenhanced font 'sans,15' background 'white'
set key outside right top Left reverse samplen 3
set grid
set xrange [*:*] noextend
set ylabel 'test accuracy (%)'
)";

inline void write_drawing(std::FILE* script, std::vector<trial> const& trials, char const* name, char const* x,
                          int column) {
  fmt::print(script, "set output 'accuracy_over_{}.svg'\nset xlabel '{}'\n", name, x);
  fmt::print(script, "set title 'Test accuracy over {} of {} ranks, mean over {} seeds'\nplot", name,
             trials.front().predicted.ranks, trials.front().runs.size());
  for (auto const& [i, t] : ranges::views::enumerate(trials))
    fmt::print(script, "{} \\\n  $accuracy index {} using {}:3 with lines title '{}'", i == 0 ? "" : ",", i, column,
               t.codec);
  fmt::print(script, "\nset output\n");
}

inline void write_script(std::FILE* script, task const& job, std::vector<trial> const& trials) {
  write_points(script, job, trials);
  write_lines(script);
  fmt::print(script, "{}set yrange [{}:*]\n", style, lowest_shown(trials));
  write_drawing(script, trials, "epochs", "epochs", 1);
  fmt::print(script, "set logscale x\n");
  write_drawing(script, trials, "bytes", "megabytes sent by a rank", 2);
}

/// A string literal of gnuplot, in which two quotes stand for one.
inline std::string quoted(std::string const& text) {
  std::string result = "'";
  for (char const c : text) result += c == '\'' ? "''" : std::string(1, c);
  return result + "'";
}

/// Runs a gnuplot script in a directory.
inline void draw(std::filesystem::path const& directory, std::string const& script) {
  written_file gnuplot(popen("gnuplot", "w"), &pclose);
  if (!gnuplot) throw std::runtime_error("train: cannot start gnuplot");
  fmt::print(gnuplot.get(), "cd {}\nload '{}'\n", quoted(directory.string()), script);
  if (pclose(gnuplot.release()) != 0)
    throw std::runtime_error("train: gnuplot failed on " + (directory / script).string());
}

/// Writes accuracy_over_epochs.svg, accuracy_over_bytes.svg and their script accuracy.gp to a directory.
inline void plot(std::filesystem::path const& directory, task const& job, std::vector<trial> const& trials) {
  write_script(open_to_write(directory / "accuracy.gp").get(), job, trials);
  draw(directory, "accuracy.gp");
}

}  // namespace train
