// benchmarks/instructions.cpp — runs each operation of each codec once under callgrind (instructions.sh).
//
//   instructions [CODEC]...     prints the compiler, then "elements operation codec" for each call of measured()
#include "subject.hpp"

#include <cstdio>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

/// callgrind counts only this function, and writes a dump at each return.
extern "C" void measured(std::function<void()> const& operation) { operation(); }

namespace {

constexpr unsigned log2n = 16;

/// Volatile, so that the compiler does not call a clone with another name.
void (*volatile const count)(std::function<void()> const&) = measured;

void run(std::string const& text, std::vector<float> const& x) {
  auto y = x;
  auto codec = bench::subject<float, pith::seq_executor>(pith::seq, text, bench::matrix_of(log2n), 1);
  auto const encode = [&] { codec.encode(0, x); };
  auto const decode = [&] { codec.decode(0, y); };
  encode();
  decode();
  count(encode);
  std::printf("%zu encode %s\n", x.size(), text.c_str());
  count(decode);
  std::printf("%zu decode %s\n", x.size(), text.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  auto codecs = std::vector<std::string>(argv + 1, argv + argc);
  if (codecs.empty()) codecs.assign(std::begin(bench::default_codecs), std::end(bench::default_codecs));
  std::printf("%s\n", PITH_COMPILER);
  auto const x = bench::normal_values<float>(std::size_t{1} << log2n);
  for (auto const& text : codecs) run(text, x);
}
