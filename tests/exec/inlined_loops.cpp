// tests/exec/inlined_loops.cpp — codecs whose loops must be inlined into the function of an instruction set.
#include <pith/codec/compress.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/top_k.hpp>

#include <cstddef>
#include <vector>

namespace {

template <class C>
void use(C const& codec, pith::span<float> x, pith::span<std::byte> memory) {
  auto const dims = pith::vector(x.size());
  auto state = pith::make_state<float>(pith::seq, codec, dims);
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, dims));
  auto ws = pith::workspace<>(pith::span<std::byte>(scratch));
  auto const payload = memory.first(pith::payload_bytes<float>(codec, dims));
  pith::compress<float>(pith::seq, codec, pith::span<float const>(x), payload, state, ws);
  pith::decompress<float>(pith::seq, codec, pith::span<std::byte const>(payload), x, state, ws);
}

}  // namespace

void use_all(pith::span<float> x, pith::span<std::byte> memory) {
  use(pith::ef(pith::qsgd<8>()), x, memory);
  use(pith::ef(pith::block_int<4>(32)), x, memory);
  use(pith::ef(pith::top_k(0.1)), x, memory);
}
