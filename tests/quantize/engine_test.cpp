// tests/quantize/engine_test.cpp — what the quantizers' engine does in one pass has the bits of doing it step by step.
#include <pith/pith.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/stochastic_cast.hpp>

#include <doctest/doctest.h>

#include "support/vectors.hpp"

#include <cstring>

using namespace support;

namespace {

/// The payloads of some ranks, one after another.
template <class In, class C>
struct sent {
  sent(C c, std::uint64_t n, unsigned many)
      : codec(std::move(c)),
        dims{n},
        ranks(many),
        stride(pith::detail::align_up(pith::payload_bytes<In>(codec, dims), 8)),
        bytes(stride * ranks),
        scratch(pith::workspace_bytes<In>(pith::seq, codec, dims, ranks) + 4096) {
    auto ws = pith::workspace(pith::span(scratch));
    for (unsigned rank = 0; rank < ranks; ++rank) {
      auto const x = narrow<In>(normal_vector(n, 90 + rank));
      auto state = pith::make_state<In>(pith::seq, codec, dims, {7, 1, static_cast<std::uint16_t>(rank)});
      pith::compress(pith::seq, codec, pith::span(x), payload(rank), state, ws);
    }
  }
  pith::span<std::byte> payload(unsigned rank) {
    return pith::span(bytes).subspan(rank * stride, pith::payload_bytes<In>(codec, dims));
  }
  auto parts() {
    using out = pith::output_of<C, In>;
    auto const first = pith::span<std::byte const>(payload(0));
    auto const y = pith::detail::sections<out, pith::seq_executor, std::byte const>(dims.n, first);
    return pith::gathered_on<pith::seq_executor, out>{y, stride, ranks};
  }
  /// Decoded one by one, added in order and scaled.
  std::vector<In> summed(pith::accum<In> factor) {
    auto ws = pith::workspace(pith::span(scratch));
    auto sum = std::vector<pith::accum<In>>(dims.n, -pith::accum<In>{0});
    auto one = std::vector<In>(dims.n);
    for (unsigned rank = 0; rank < ranks; ++rank) {
      auto state = pith::make_state<In>(pith::seq, codec, dims, {7, 1, static_cast<std::uint16_t>(rank)});
      pith::decompress(pith::seq, codec, pith::span<std::byte const>(payload(rank)), pith::span(one), state, ws);
      for (std::uint64_t i = 0; i < dims.n; ++i) sum[i] += pith::element_cast<pith::accum<In>>(one[i]);
    }
    auto scaled = std::vector<In>(dims.n);
    for (std::uint64_t i = 0; i < dims.n; ++i) scaled[i] = pith::element_cast<In>(factor * sum[i]);
    return scaled;
  }

  C codec;
  pith::shape dims;
  unsigned ranks;
  std::size_t stride;
  std::vector<std::byte> bytes, scratch;
};

std::uint64_t const step = 0;
pith::encoding_id const id{&step, 7, 0, 1, 0, 0, 0};

template <class In>
pith::context<In, pith::seq_executor> context(pith::shape dims, pith::workspace<>& ws) {
  return {pith::seq, id, dims, ws};
}

template <class In, class C>
void sums(C const& codec, std::uint64_t n, unsigned ranks) {
  CAPTURE(n);
  CAPTURE(ranks);
  auto all = sent<In, C>(codec, n, ranks);
  auto ws = pith::workspace(pith::span(all.scratch));
  auto const share = pith::accum<In>{1} / static_cast<pith::accum<In>>(ranks);
  auto x = std::vector<In>(n);
  codec.decode_ranks(context<In>({n}, ws), all.parts(), share, {x.data(), n});
  auto const expected = all.summed(share);
  CHECK((n == 0 || std::memcmp(x.data(), expected.data(), n * sizeof(In)) == 0));
}

/// For whole groups of the ranks that are added at once, and for others.
template <class In, class C>
void sums(C const& codec) {
  for (std::uint64_t const n : {0u, 1u, 9u, 128u, 129u, 513u, 5000u, 40000u}) {
    for (unsigned const ranks : {1u, 3u, 4u, 5u, 8u}) sums<In>(codec, n, ranks);
  }
}

}  // namespace

TEST_CASE("decode_ranks over all ranks equals the scaled sum of the payloads that are decoded one by one") {
  using namespace pith::options;
  sums<float>(pith::qsgd<8>());
  sums<float>(pith::qsgd<3>(3, 264));
  sums<double>(pith::scaled_sign());
  sums<pith::half>(pith::scaled_sign(1024));
  sums<pith::bfloat16>(pith::qsgd<8>());
  sums<float>(pith::natural<8>());
  sums<pith::half>(pith::natural<9>());
  sums<double>(pith::stochastic_cast<pith::bfloat16>());
  sums<float>(pith::one_bit());
  sums<pith::bfloat16>(pith::one_bit(column));
}

TEST_CASE("a payload of whole buckets is a slice of the payload") {
  auto const codec = pith::qsgd<8>();
  auto const x = narrow<float>(normal_vector(1024, 17));
  auto whole = std::vector<std::byte>(pith::payload_bytes<float>(codec, {1024}));
  auto part = std::vector<std::byte>(pith::payload_bytes<float>(codec, {256}));
  auto scratch = std::vector<std::byte>(4096);
  auto ws = pith::workspace(pith::span(scratch));
  using out = pith::packed<8>;
  auto const sections = pith::detail::sections<out, pith::seq_executor, std::byte>;
  codec.encode<float>(context<float>({1024}, ws), {x.data(), 1024}, sections(1024, pith::span(whole)));
  auto here = context<float>({256}, ws);
  here.id.first = 2 * 128;
  codec.encode<float>(here, {x.data() + 256, 256}, sections(256, pith::span(part)));
  CHECK(std::memcmp(part.data(), whole.data() + 256, 256) == 0);
  CHECK(std::memcmp(part.data() + 256, whole.data() + 1024 + 2 * sizeof(float), 2 * sizeof(float)) == 0);
}
