// tests/reports/misaligned_memory_test.cpp — misaligned spans. Each call throws before it writes to memory.
#include <pith/codec/compressor.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/all_gather.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reduce_scatter_mean.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/wire.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

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

TEST_CASE("misaligned spans are refused by every function") {
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
