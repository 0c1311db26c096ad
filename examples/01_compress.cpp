// examples/01_compress.cpp — one gradient through a composed codec with error feedback.
//
//   ef(top_k(0.01)|qsgd<8>) makes 40000 bytes 220
//   step 1: 100 of 10000 entries received, residual 0.99 of the gradient
//   step 2: 100 of 10000 entries received, residual 1.97 of the gradient
//   step 3: 100 of 10000 entries received, residual 2.93 of the gradient
#include <pith/pith.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

double length(std::vector<float> const& x) {
  double squared = 0;
  for (auto v : x) squared += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squared);
}

int main() {
  // What to send, and the promise that the rest is sent later.
  auto const codec = pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>());
  constexpr std::size_t n = 10'000;

  // The codec with all memory that it needs for one tensor.
  auto compressor = pith::compressor<float>(codec, pith::vector(n));
  std::printf("%s makes %zu bytes %zu\n", codec.name().c_str(), 4 * n, compressor.payload().size());

  auto gradient = std::vector<float>(n), received = gradient, unsent = gradient;
  for (std::size_t i = 0; i < n; ++i) gradient[i] = std::sin(static_cast<float>(i * i));
  for (int step = 1; step <= 3; ++step) {
    auto const payload = compressor.compress(gradient);
    compressor.decompress(payload, received);
    for (std::size_t i = 0; i < n; ++i) unsent[i] += gradient[i] - received[i];
    std::printf("step %d: %td of %zu entries received, residual %.2f of the gradient\n", step,
                std::count_if(received.begin(), received.end(), [](float v) { return v != 0; }), received.size(),
                length(unsent) / length(gradient));
  }
}
