// benchmarks/build_cost/compress.cpp — compresses and decompresses one tensor by PITH_CODEC on PITH_EXECUTOR.
#include <pith/codec/compress.hpp>
#include <pith/core/buffer.hpp>

#include <type_traits>

namespace measured {

using namespace pith;
using pith::half;  // hides CUDA's global `half`
using executor_type = std::remove_cvref_t<decltype(PITH_EXECUTOR)>;
using codec_type = std::remove_cvref_t<decltype(PITH_CODEC)>;

/// The codec is a parameter, so the compiler cannot fold its values.
void there_and_back(executor_type const& exec, codec_type const& codec, span_on<executor_type, float> x) {
  auto const dims = shape{x.size()};
  auto state = make_state<float>(exec, codec, dims);
  auto const payload = buffer<std::byte, executor_type>(exec, payload_bytes<float>(codec, dims));
  auto const scratch = buffer<std::byte, executor_type>(exec, workspace_bytes<float>(exec, codec, dims));
  auto ws = workspace_on<executor_type>(scratch.view());
  compress(exec, codec, x, payload.view(), state, ws);
  decompress(exec, codec, payload.view(), x, state, ws);
}

}  // namespace measured
