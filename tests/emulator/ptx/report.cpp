// tests/emulator/ptx/report.cpp — see report.hpp.
#include "ptx/report.hpp"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>

#include "ptx/running.hpp"

namespace emulator {

namespace {

std::string demangled(std::string const& name) {
  auto status = 0;
  auto* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  auto const made = std::string(text ? text : name.c_str());
  std::free(text);
  return made;
}

std::string in_brackets(unsigned x, unsigned y, unsigned z) {
  return '(' + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ')';
}

std::string text_of(module const& m, source_place const& p) {
  auto const at = m.files.find(p.file);
  return (at == m.files.end() ? std::string("?") : at->second) + ':' + std::to_string(p.line);
}

/// A line for each place.
std::string lines_of(module const& m, source_places const& places) {
  auto text = std::string();
  for (auto const& p : places) text += (text.empty() ? "\n  source " : "\n         inlined at ") + text_of(m, p);
  return text;
}

}  // namespace

std::string hex(std::uint64_t v) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "0x%llx", static_cast<unsigned long long>(v));
  return digits;
}

origin const& origin_of(thread const& t, instruction const& i) {
  auto const& f = *t.calls.back().f;
  return f.origins[static_cast<std::size_t>(&i - f.code.data())];
}

std::string line_of(thread const& t, std::uint32_t line) {
  auto const text = "PTX line " + std::to_string(line);
  auto const& f = *t.calls.back().f;
  for (std::size_t k = 0; k < f.code.size(); ++k) {
    if (f.code[k].line != line) continue;
    auto const& places = f.sources[f.origins[k].source];
    if (places.empty()) return text;
    auto const inner = text_of(*f.owner, places.front()), outer = text_of(*f.owner, places.back());
    return text + " (" + inner + (inner == outer ? "" : ", inlined at " + outer) + ')';
  }
  return text;
}

std::string place_of(function const& kernel, thread const* t, instruction const* i) {
  auto text = "\n  kernel " + demangled(kernel.name);
  if (!t) return text;
  auto const& b = *t->in;
  auto const& size = b.size;
  text += "\n  block  " + std::to_string(b.number) + ' ' + in_brackets(b.at.x, b.at.y, b.at.z);
  text += "\n  thread " + std::to_string(t->index) + ' ' +
          in_brackets(t->index % size.x, t->index / size.x % size.y, t->index / size.x / size.y);
  auto const& f = *t->calls.back().f;
  auto const& from = origin_of(*t, *i);
  text += "\n  PTX    line " + std::to_string(i->line) + ": " + from.text;
  return text + lines_of(*f.owner, f.sources[from.source]);
}

}  // namespace emulator
