// benchmarks/build_cost/runtime_compress.cpp — compresses and decompresses one tensor by a codec of pith::runtime.
#include <pith/runtime/compressor.hpp>

#include <string_view>

void there_and_back(std::string_view text, pith::span<float> x) {
  auto compressor = pith::runtime::compressor<float>(pith::runtime::parse<float>(text), pith::vector(x.size()));
  compressor.decompress(compressor.compress(x), x);
}
