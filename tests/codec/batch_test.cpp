// tests/codec/batch_test.cpp — a batch makes the bytes of its tensors one by one, in as many launches as one takes.
#include <pith/codec/batch.hpp>
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/allocations.hpp"
#include "support/launches.hpp"
#include "support/vectors.hpp"

using namespace support;

namespace {

std::uint64_t const step = 5;
pith::encoding_id const id{&step, 7, 0, 0, 3, 0, 0};
constexpr auto garbage = std::byte{0xa5};

std::vector<pith::shape> mixed_sizes() { return {{0}, {1}, {5000}, {7}, {40000}, {129}, {0}, {600}, {40000}, {0}}; }

/// The tensors of a table with their payloads and decoded tensors. The bytes between payloads are `garbage`.
template <class In, class C>
struct one_by_one {
  one_by_one(C c, std::vector<pith::tensor_place> const& tensors, std::vector<In> const& x, std::size_t bytes)
      : codec(std::move(c)), payloads(bytes, garbage), decoded(x.size()) {
    for (auto const& t : tensors) add(t, x);
  }

  void add(pith::tensor_place const& t, std::vector<In> const& x) {
    auto memory = std::vector<std::byte>(pith::workspace_bytes<In>(pith::seq, codec, t.dims));
    auto ws = pith::workspace(pith::span(memory));
    auto state = pith::make_state<In>(pith::seq, codec, t.dims, {id.seed, t.tensor, id.rank});
    for (std::uint64_t s = 1; s < step; ++s) state.advance(pith::seq);
    auto const payload = pith::span(payloads).subspan(t.payload, pith::payload_bytes<In>(codec, t.dims));
    pith::compress(pith::seq, codec, pith::span(x).subspan(t.first, t.dims.n), payload, state, ws);
    pith::decompress(pith::seq, codec, pith::span<std::byte const>(payload),
                     pith::span(decoded).subspan(t.first, t.dims.n), state, ws);
  }

  C codec;
  std::vector<std::byte> payloads;
  std::vector<In> decoded;
};

template <class In, class E, class C>
void same_bytes_for(E const& exec, C const& codec, std::vector<pith::tensor_place> const& tensors) {
  CAPTURE(codec.name());
  auto const table = pith::make_segments<In>(exec, codec, tensors);
  auto const x = narrow<In>(normal_vector(table.elements(), 31));
  auto const expected = one_by_one<In, C>(codec, tensors, x, table.payload_bytes());
  auto memory = std::vector<std::byte>(pith::batch_workspace_bytes<In>(exec, codec, table));
  auto ws = pith::workspace(pith::span(memory));
  auto payloads = std::vector<std::byte>(table.payload_bytes(), garbage);
  auto decoded = std::vector<In>(x.size());
  auto const before = allocations.load();
  pith::encode_batch<In>(exec, codec, id, table, pith::span(x), pith::span(payloads), ws);
  pith::decode_batch<In>(exec, codec, id, table, pith::span(payloads), pith::span(decoded), ws);
  CHECK(allocations.load() == before);
  CHECK(payloads == expected.payloads);
  CHECK(same_bytes(decoded, expected.decoded));
}

template <class In, class E, class C>
void same_bytes_in_a_row(E const& exec, C const& codec) {
  same_bytes_for<In>(exec, codec, pith::contiguous_places<In>(codec, mixed_sizes()));
}

template <class In, class E>
void same_bytes_of_codecs(E const& exec) {
  same_bytes_in_a_row<In>(exec, pith::qsgd<8>());
  same_bytes_in_a_row<In>(exec, pith::qsgd<3>(3, 1024));
  same_bytes_in_a_row<In>(exec, pith::scaled_sign());
  same_bytes_in_a_row<In>(exec, pith::scaled_sign(1024));
  same_bytes_in_a_row<In>(exec, pith::natural<8>());
}

struct launches {
  unsigned encoding = 0, decoding = 0;
  friend bool operator==(launches const&, launches const&) = default;
};

template <class C>
launches launched(C const& codec, std::vector<pith::shape> const& tensors) {
  unsigned count = 0;
  auto const exec = counting_executor(count);
  auto const table = pith::make_segments<float>(exec, codec, tensors);
  auto x = std::vector<float>(table.elements(), 1);
  auto payloads = std::vector<std::byte>(table.payload_bytes());
  auto memory = std::vector<std::byte>(pith::batch_workspace_bytes<float>(exec, codec, table));
  auto ws = pith::workspace(pith::span(memory));
  count = 0;
  pith::encode_batch<float>(exec, codec, id, table, pith::span(x), pith::span(payloads), ws);
  auto const encoding = count;
  pith::decode_batch<float>(exec, codec, id, table, pith::span(payloads), pith::span(x), ws);
  return {encoding, count - encoding};
}

std::vector<pith::shape> repeated(unsigned times, std::vector<pith::shape> const& some) {
  auto all = std::vector<pith::shape>();
  for (unsigned i = 0; i < times; ++i) all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("quantizers encode a batch as its tensors one by one", In, float, pith::half) {
  same_bytes_of_codecs<In>(pith::seq);
}

TEST_CASE("threads share a batch and make the same bytes") {
  auto pool = pith::thread_pool(2);
  same_bytes_of_codecs<float>(pith::par(pool));
  same_bytes_of_codecs<pith::half>(pith::par(pool));
}

TEST_CASE("double has its own scales in a batch") { same_bytes_in_a_row<double>(pith::seq, pith::scaled_sign()); }

TEST_CASE("a codec without an engine for batches goes through the tensors") {
  auto pool = pith::thread_pool(2);
  same_bytes_in_a_row<float>(pith::seq, pith::top_k(0.01));
  same_bytes_in_a_row<float>(pith::par(pool), pith::top_k(0.01));
  same_bytes_in_a_row<pith::half>(pith::seq, pith::random_k(0.1));
}

TEST_CASE("tensors of a batch lie and are numbered as they say") {
  auto const codec = pith::qsgd<8>();
  auto places = std::vector<pith::tensor_place>{{{129}, 900, 2000, 12}, {{700}, 3, 64, 4}};
  same_bytes_for<float>(pith::seq, codec, places);
  places[0].payload = 4;
  CHECK_THROWS_WITH_AS(pith::make_segments<float>(pith::seq, codec, places),
                       "pith::make_segments: the offset of a payload must be a multiple of 8, got 4",
                       std::invalid_argument);
}

TEST_CASE("equal tensors of a batch draw different numbers") {
  auto const codec = pith::qsgd<8>();
  auto const table = pith::make_segments<float>(pith::seq, codec, std::vector<pith::shape>{{128}, {128}});
  auto x = narrow<float>(normal_vector(128, 4));
  x.insert(x.end(), x.begin(), x.end());
  auto payloads = std::vector<std::byte>(table.payload_bytes()), memory = std::vector<std::byte>(128);
  auto ws = pith::workspace(pith::span(memory));
  pith::encode_batch<float>(pith::seq, codec, id, table, pith::span(x), pith::span(payloads), ws);
  auto const second = payloads.begin() + static_cast<std::ptrdiff_t>(table.tensors()[1].payload);
  CHECK(!std::equal(payloads.begin(), payloads.begin() + 128, second));
}

TEST_CASE("the launches of a batch do not grow with its tensors") {
  auto const some = std::vector<pith::shape>{{1024}, {64}, {5000}, {600}};
  for (unsigned const times : {1u, 2u, 40u}) {
    CAPTURE(times);
    auto const all = repeated(times, some);
    CHECK(launched(pith::qsgd<8>(), all) == launches{1, 1});
    CHECK(launched(pith::qsgd<8>(127, 1024), all) == launches{4, 1});
    CHECK(launched(pith::scaled_sign(), all) == launches{4, 1});
    CHECK(launched(pith::natural<8>(), all) == launches{1, 1});
  }
  CHECK(launched(pith::top_k(0.1), repeated(2, some)).encoding == 2 * launched(pith::top_k(0.1), some).encoding);
}

TEST_CASE("a batch of nothing launches nothing") {
  CHECK(launched(pith::qsgd<8>(), {}) == launches{0, 0});
  CHECK(launched(pith::scaled_sign(), {{0}, {0}}) == launches{0, 0});
}

TEST_CASE("a table of another codec and short memory are refused") {
  auto const codec = pith::qsgd<8>();
  auto const table = pith::make_segments<float>(pith::seq, codec, std::vector<pith::shape>{{16}, {8}});
  auto x = std::vector<float>(24);
  auto payloads = std::vector<std::byte>(36), memory = std::vector<std::byte>(128);
  auto ws = pith::workspace(pith::span(memory));
  auto const encode = [&](auto const& with, std::size_t n, std::size_t bytes) {
    pith::encode_batch<float>(pith::seq, with, id, table, pith::span<float const>(x.data(), n),
                              pith::span(payloads).first(bytes), ws);
  };
  encode(codec, 24, 36);
  CHECK_THROWS_WITH_AS(encode(pith::scaled_sign(), 24, 36),
                       "pith::encode_batch: table must have the segments of scaled_sign for float elements, got "
                       "others: make it with make_segments of this codec",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      encode(pith::top_k(0.1), 24, 36),
      "pith::encode_batch: table must have the segments of top_k(0.1) for float elements, got others: make it with "
      "make_segments of this codec",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(encode(codec, 23, 36), "pith::encode_batch: gradients must have at least 24 elements, got 23",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(encode(codec, 24, 35), "pith::encode_batch: payloads must have at least 36 bytes, got 35",
                       std::invalid_argument);
}
