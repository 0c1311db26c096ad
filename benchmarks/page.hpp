// benchmarks/page.hpp — tables of results, and their sections in a page of docs.
#pragma once

#include <range/v3/range/conversion.hpp>
#include <range/v3/view/join.hpp>
#include <range/v3/view/repeat_n.hpp>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

/// A line of a table, without its end.
inline std::string line(std::vector<std::string> const& cells) {
  return "| " + (cells | ranges::views::join(std::string(" | ")) | ranges::to<std::string>()) + " |";
}

/// The first two lines of a table.
inline std::string heading(std::string const& first, std::vector<std::string> columns) {
  columns.insert(columns.begin(), first);
  auto const rules = ranges::views::repeat_n(std::string("---|"), static_cast<std::ptrdiff_t>(columns.size()));
  return line(columns) + "\n|" + (rules | ranges::views::join | ranges::to<std::string>());
}

/// Text as code in a table cell, with escaped bars.
inline std::string code(std::string text) {
  for (auto at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, 1, '\\');
  return "`" + text + "`";
}

/// The page with `text` between `<!-- NAME -->` and `<!-- end -->`.
inline std::string with_section(std::string page, std::string const& name, std::string const& text) {
  auto const mark = "<!-- " + name + " -->\n";
  auto const begin = page.find(mark);
  auto const end = page.find("<!-- end -->", begin);
  if (begin == std::string::npos || end == std::string::npos)
    throw std::invalid_argument("the page has no section <!-- " + name + " --> .. <!-- end -->");
  return page.replace(begin + mark.size(), end - begin - mark.size(), text);
}

inline std::string read_page(std::string const& path) {
  auto file = std::ifstream(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void update_page(std::string const& path, std::string const& name, std::string const& text) {
  auto const page = with_section(read_page(path), name, text);
  if (!(std::ofstream(path) << page).flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace bench
