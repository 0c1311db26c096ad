// tests/reports/batch_table_test.cpp — memory that does not fit a call: a batch's table of another codec or element
// type, and misaligned or short spans. Each call throws before it writes to memory.
#include <pith/codec/batch.hpp>
#include <pith/codec/compressor.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/all_gather.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reduce_scatter_mean.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/sparsify/top_k.hpp>
#include <pith/wire.hpp>

#include <doctest/doctest.h>

#include "support/vectors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::uint64_t const first_step = 1;
auto const batch_sizes = std::vector<pith::shape>{{8192}, {0}, {1}, {520}, {5000}, {8192}, {40000}};

/// Memory whose first byte is `off` bytes after a multiple of 64.
class aligned_memory {
 public:
  aligned_memory(std::size_t bytes, std::size_t off) : bytes_(bytes + 128) {
    auto const at = reinterpret_cast<std::uintptr_t>(bytes_.data());
    view_ = {bytes_.data() + (64 - at % 64) + off, bytes};
  }
  pith::span<std::byte> bytes() const { return view_; }
  template <class T>
  pith::span<T> of() const {
    return {reinterpret_cast<T*>(view_.data()), view_.size() / sizeof(T)};
  }

 private:
  std::vector<std::byte> bytes_;
  pith::span<std::byte> view_;
};

/// Encodes with the table of another codec. Either both directions throw, or the payloads equal those of the own table.
template <class In, class Made, class C>
void check_table(Made const& made, C const& codec) {
  CAPTURE(made.name());
  CAPTURE(codec.name());
  auto id = pith::encoding_id();
  id.step = &first_step;
  auto const table = pith::make_segments<float>(pith::seq, made, batch_sizes);
  auto const x = support::narrow<In>(support::normal_vector(table.elements(), 5));
  auto payloads = std::vector<std::byte>(table.payload_bytes()), scratch = std::vector<std::byte>(1 << 20);
  auto ws = pith::workspace<>(pith::span<std::byte>(scratch));
  try {
    pith::encode_batch<In>(pith::seq, codec, id, table, pith::span<In const>(x), pith::span(payloads), ws);
  } catch (std::invalid_argument const& refused) {
    CHECK(std::string(refused.what()).starts_with("pith::encode_batch: table must have the segments of "));
    CHECK(std::all_of(payloads.begin(), payloads.end(), [](std::byte b) { return b == std::byte{}; }));
    auto y = x;
    CHECK_THROWS_AS(pith::decode_batch<In>(pith::seq, codec, id, table, pith::span<std::byte const>(payloads),
                                           pith::span<In>(y), ws),
                    std::invalid_argument);
    return;
  }
  auto const own = pith::make_segments<In>(pith::seq, codec, batch_sizes);
  REQUIRE(own.payload_bytes() == payloads.size());
  auto expected = std::vector<std::byte>(own.payload_bytes());
  pith::encode_batch<In>(pith::seq, codec, id, own, pith::span<In const>(x), pith::span(expected), ws);
  CHECK(payloads == expected);
}

/// Checks the table of one codec with all codecs.
template <class Made>
void check_tables_of(Made const& made) {
  auto const check = [&](auto const&... codecs) { (check_table<float>(made, codecs), ...); };
  for (auto const bucket : {8u, 64u, 512u, 1024u, 2048u, 2504u, 4096u, 8192u, 0u}) {
    check(pith::scaled_sign(bucket), pith::one_bit<>(bucket), pith::qsgd<8>(127, bucket, pith::norm::max),
          pith::qsgd<2>(1, bucket), pith::block_int<8>(bucket), pith::block_int<4>(bucket));
  }
  check(pith::natural<8>(), pith::sign(), pith::top_k(0.1), pith::top_k(0.25) | pith::qsgd<8>());
  check_table<double>(made, pith::qsgd<8>());
  check_table<pith::half>(made, pith::scaled_sign(64));
}

template <class C>
struct one_tensor {
  static constexpr std::size_t n = 1000;

  C codec;
  pith::codec_state<float, C, pith::seq_executor> state = pith::make_state<float>(pith::seq, codec, {n});
  aligned_memory scratch{std::size_t{1} << 20, 0};

  pith::workspace<> ws() const { return pith::workspace<>(scratch.bytes()); }
};

auto exchange_of(pith::scaled_sign const& codec, pith::self_communicator& comm) {
  using exchange = pith::gradient_exchange<float, pith::seq_executor, pith::self_communicator>;
  return exchange(pith::seq, comm, {{"w", {one_tensor<pith::scaled_sign>::n}}}, codec);
}

}  // namespace

TEST_CASE("a table of another codec is refused or gives the payloads of the own table") {
  check_tables_of(pith::block_int<8>(1024));
  check_tables_of(pith::scaled_sign(64));
  check_tables_of(pith::qsgd<8>(127, 2504));
  check_tables_of(pith::natural<8>());
  check_tables_of(pith::top_k(0.1));
}

TEST_CASE("places that end beyond 64 bits are refused") {
  auto const codec = pith::scaled_sign();
  for (auto const& place :
       {pith::tensor_place{{16}, ~std::uint64_t{0} - 8, 0, 0}, pith::tensor_place{{16}, 0, ~std::size_t{0} - 7, 0}})
    CHECK_THROWS_AS(pith::make_segments<float>(pith::seq, codec, {place}), std::invalid_argument);
}

TEST_CASE("misaligned and short spans of a batch are refused") {
  auto const codec = pith::scaled_sign(64);
  auto const table = pith::make_segments<float>(pith::seq, codec, std::vector<pith::shape>{{1000}, {8}});
  auto id = pith::encoding_id();
  id.step = &first_step;
  auto const scratch = aligned_memory(std::size_t{1} << 16, 3);
  auto const run = [&](aligned_memory const& x, aligned_memory const& payloads) {
    auto ws = pith::workspace<>(scratch.bytes());
    pith::encode_batch<float>(pith::seq, codec, id, table, x.of<float const>(), payloads.bytes(), ws);
    pith::decode_batch<float>(pith::seq, codec, id, table, payloads.bytes(), x.of<float>(), ws);
  };
  run(aligned_memory(4032, 4), aligned_memory(table.payload_bytes(), 8));
  for (std::size_t const off : {1u, 2u, 3u})
    CHECK_THROWS_AS(run(aligned_memory(4032, off), aligned_memory(4096, 0)), std::invalid_argument);
  for (std::size_t const off : {1u, 2u, 4u, 7u})
    CHECK_THROWS_WITH_AS(run(aligned_memory(4032, 0), aligned_memory(4096, off)),
                         doctest::Contains("encode_batch: payloads must be aligned to 8 bytes"), std::invalid_argument);
  CHECK_THROWS_AS(run(aligned_memory(4028, 0), aligned_memory(4096, 0)), std::invalid_argument);
  CHECK_THROWS_AS(run(aligned_memory(4032, 0), aligned_memory(table.payload_bytes() - 1, 0)), std::invalid_argument);
}

TEST_CASE("misaligned and short spans of one tensor are refused by every function") {
  using tensor = one_tensor<pith::scaled_sign>;
  auto t = tensor{pith::scaled_sign(64)};
  auto const over = pith::parts_for(tensor::n, 1, t.codec);
  auto comm = pith::self_communicator();
  auto const payload_size = pith::payload_bytes<float>(t.codec, {tensor::n});
  auto const frame_size = pith::wire::frame_bytes<float>(t.codec, {tensor::n});
  auto const refuses = [&](auto const& call) { CHECK_THROWS_AS(call(), std::invalid_argument); };
  for (std::size_t const off : {1u, 2u, 4u}) {
    auto const x = aligned_memory(4000, off % 4), y = aligned_memory(4000, 0),
               payload = aligned_memory(payload_size, off);
    auto const frame = aligned_memory(frame_size, off);
    auto ws = t.ws();
    auto const good = aligned_memory(payload_size, 0);
    if (off < 4) {
      refuses([&] { pith::compress(pith::seq, t.codec, x.of<float const>(), good.bytes(), t.state, ws); });
      refuses([&] { pith::decompress(pith::seq, t.codec, good.bytes(), x.of<float>(), t.state, ws); });
      refuses([&] { pith::all_reduce_mean<float>(pith::seq, comm, t.codec, x.of<float>(), t.state, ws); });
      refuses([&] {
        pith::reduce_scatter_mean<float>(pith::seq, comm, t.codec, over, x.of<float const>(), y.of<float>(), t.state,
                                         ws);
      });
      refuses([&] {
        pith::reduce_scatter_mean<float>(pith::seq, comm, t.codec, over, y.of<float const>(), x.of<float>(), t.state,
                                         ws);
      });
      refuses([&] {
        pith::all_gather<float>(pith::seq, comm, t.codec, over, y.of<float const>(), x.of<float>(), t.state, ws);
      });
      refuses([&] {
        auto all = exchange_of(t.codec, comm);
        all.all_reduce_mean(x.of<float>());
      });
      refuses([&] {
        auto all = exchange_of(t.codec, comm);
        all.begin();
        all.ready(0, x.of<float>());
      });
      refuses([&] {
        auto one = pith::make_compressor<float>(pith::seq, t.codec, {tensor::n});
        one.compress(x.of<float const>());
      });
    }
    refuses([&] { pith::compress(pith::seq, t.codec, y.of<float const>(), payload.bytes(), t.state, ws); });
    refuses([&] { pith::decompress(pith::seq, t.codec, payload.bytes(), y.of<float>(), t.state, ws); });
    refuses([&] { pith::wire::seal<float>(pith::seq, t.codec, y.of<float const>(), frame.bytes(), t.state, ws); });
    refuses([&] { pith::wire::open<float>(pith::seq, t.codec, frame.bytes(), y.of<float>(), t.state, ws); });
  }
}
