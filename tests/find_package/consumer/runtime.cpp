// tests/find_package/consumer/runtime.cpp — prints the name and payload size of a codec that pith::runtime compiled.
#include <pith/runtime.hpp>

#include <cstdio>
#include <vector>

int main() {
  auto const codec = pith::runtime::parse<float>("ef(top_k(0.01)|qsgd<8>)");
  auto compressor = pith::runtime::compressor<float>(codec, pith::vector(1000));
  auto const gradient = std::vector<float>(1000, 1.0f);
  auto const payload = compressor.compress(gradient);
  std::printf("%s: %zu bytes\n", codec.name().c_str(), payload.size());
}
