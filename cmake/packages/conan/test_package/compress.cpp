// Compresses a gradient with the pith that the package manager has found.
#include <pith/codec/compressor.hpp>
#include <pith/quantize/qsgd.hpp>

#include <cstdio>
#include <vector>

int main() {
  auto compressor = pith::compressor<float>(pith::qsgd<8>(), pith::vector(1000));
  auto const gradient = std::vector<float>(1000, 1.0f);
  std::printf("pith %d.%d.%d: %zu bytes\n", PITH_VERSION_MAJOR, PITH_VERSION_MINOR, PITH_VERSION_PATCH,
              compressor.compress(gradient).size());
}
