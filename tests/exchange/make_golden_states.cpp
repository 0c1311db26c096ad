// tests/exchange/make_golden_states.cpp — writes the golden states of this format and wire version. Run by hand, once for
// each. States that a new wire version does not change have one file.
//
//     make_golden_states tests/data/state/v2_wire1
#include <fstream>
#include <stdexcept>
#include <string>

#include "exchange/golden_states.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto const write = [&](std::string const& name, golden::state_bytes const& state) {
    auto file = std::ofstream(argv[1] + ("/" + name + ".state"), std::ios::binary);
    file.write(reinterpret_cast<char const*>(state.data()), static_cast<std::streamsize>(state.size()));
    if (!file.flush()) throw std::runtime_error("cannot write the state of " + name);
  };
  golden::for_each_kind([&](std::string const& name, unsigned ranks, unsigned steps, auto const& make) {
    write(name, golden::saved_by(ranks, steps, make));
  });
  write("compressor", golden::saved_by_compressor());
}
