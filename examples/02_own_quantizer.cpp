// examples/02_own_quantizer.cpp — a user-defined quantizer: five small functions.
//
//   ef(top_k(0.25)|nearest4) makes 4096 bytes 264
//   relative error 0.529 in one step
//
// own/nearest4.hpp is the complete quantizer. The library adds buckets, packing, encoding and decoding, element types,
// vector instructions, composition, error feedback, and sums over ranks in one pass. codec_bench measures it like a
// built-in one.
#include <pith/pith.hpp>

#include "own/nearest4.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  auto const codec = pith::error_feedback(pith::top_k(0.25) | nearest4());
  auto x = std::vector<float>(1024);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i));

  auto state = pith::make_state<float>(pith::seq, codec, {x.size()});
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, {x.size()}));
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {x.size()}));
  auto ws = pith::workspace(scratch);
  auto y = x;
  pith::compress(pith::seq, codec, x, payload, state, ws);
  pith::decompress(pith::seq, codec, payload, y, state, ws);

  double error = 0, energy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(x[i] - y[i]), 2);
    energy += std::pow(static_cast<double>(x[i]), 2);
  }
  std::printf("%s makes %zu bytes %zu\n", codec.name().c_str(), 4 * x.size(), payload.size());
  std::printf("relative error %.3f in one step\n", error / energy);
}
