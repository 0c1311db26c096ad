// tests/codec/refusals_test.cpp — a refused call on one tensor leaves state, gradients and payloads as they were.
#include <pith/codec/any_codec.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/all_gather.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exchange/reduce_scatter_mean.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/top_k.hpp>
#include <pith/transform/hadamard.hpp>
#include <pith/wire/frame.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"
#include "support/vectors.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using any = pith::any_codec<float, pith::seq_executor>;
using host_bytes = pith::span<std::byte>;
using host_floats = pith::span<float>;

/// Bytes that begin at a multiple of 128, so that none of a workspace is lost to alignment.
struct aligned_bytes {
  explicit aligned_bytes(std::size_t n, std::byte fill = std::byte{0x5a}) : all(pith::seq, n) {
    std::fill_n(all.data(), n, fill);
  }
  host_bytes first(std::size_t n) const { return {all.data(), n}; }
  std::vector<std::byte> read() const { return {all.data(), all.data() + all.size()}; }

  pith::buffer<std::byte, pith::seq_executor> all;
};

/// A tensor, its state after two steps, and room for what a call writes.
template <class C>
struct tensor_trial {
  C codec;
  pith::shape dims;
  pith::codec_state<float, C, pith::seq_executor> state;
  std::vector<float> x, out;
  aligned_bytes payload;

  tensor_trial(C const& c, pith::shape d)
      : codec(c),
        dims(d),
        state(pith::make_state<float>(pith::seq, codec, dims, {7, 3, 0})),
        x(support::narrow<float>(support::normal_vector(dims.n, 11))),
        out(dims.n, 9),
        payload(pith::payload_bytes<float>(codec, dims) + 16) {
    for (int step = 0; step < 2; ++step) compress(scratch());
  }

  std::size_t size() const { return pith::payload_bytes<float>(codec, dims); }
  std::size_t scratch() const { return pith::workspace_bytes<float>(pith::seq, codec, dims, 1); }

  void compress(std::size_t bytes) {
    auto const memory = aligned_bytes(bytes);
    auto ws = pith::workspace<>(memory.first(bytes));
    pith::compress(pith::seq, codec, host_floats(x), payload.first(size()), state, ws);
  }
  std::vector<std::byte> saved() {
    auto all = pith::detail::field_saver<pith::seq_executor>(pith::seq);
    state.fields(all);
    return std::move(all.bytes);
  }

  /// The call throws, twice, and nothing that it could have written has changed.
  template <class Error, class F>
  void refuses(std::string const& name, F const& call) {
    CAPTURE(name);
    CAPTURE(codec.name());
    CAPTURE(dims.n);
    auto const before = saved(), bytes = payload.read();
    auto const gradient = x, values = out;
    for (int twice = 0; twice < 2; ++twice) {
      CHECK_THROWS_AS(call(), Error);
      CHECK(saved() == before);
      CHECK(payload.read() == bytes);
      CHECK((x == gradient && out == values));
    }
  }
  /// So it is with every workspace of fewer bytes than `enough`, and goes on with one that has them.
  template <class F>
  void needs(std::string const& name, std::size_t enough, F const& call) {
    auto const spare = pith::detail::scratch_alignment;  // which memory that is aligned does not need
    for (std::size_t bytes = 0; bytes + spare < enough; bytes += 1 + enough / 23) {
      auto const memory = aligned_bytes(bytes);
      auto ws = pith::workspace<>(memory.first(bytes));
      refuses<pith::workspace_exhausted>(name, [&] { call(ws); });
    }
    for (std::size_t const offset : {0u, 1u, 127u}) {  // wherever memory lies
      auto const memory = aligned_bytes(enough + offset);
      auto ws = pith::workspace<>(host_bytes(memory.all.data() + offset, enough));
      CHECK_NOTHROW(call(ws));
    }
  }
};

/// f(trial) of codecs and sizes.
template <class F>
void with_trials(F const& f) {
  for (auto const text :
       {"qsgd<8>", "top_k(0.2)|qsgd<4>", "ef(top_k(0.2)|qsgd<8>)", "ef(scaled_sign(64))", "ef(power_sgd(2))",
        "hadamard|qsgd<4>", "ef(top_k(0.1),momentum_correction(0.9))", "identity"}) {
    for (std::uint64_t const n : {1u, 300u, 5000u})
      f(tensor_trial<any>(pith::parse<float>(text), {n, n == 1 ? 1u : 20u}));
  }
}

}  // namespace

TEST_CASE("a refused compress or decompress changes nothing") {
  with_trials([](auto&& t) {
    using bad = std::invalid_argument;
    auto const memory = aligned_bytes(t.scratch());
    auto ws = pith::workspace<>(memory.first(t.scratch()));
    auto const size = t.size();
    auto const compress = [&](host_floats x, host_bytes payload) {
      pith::compress(pith::seq, t.codec, x, payload, t.state, ws);
    };
    auto const decompress = [&](host_bytes payload, host_floats x) {
      pith::decompress(pith::seq, t.codec, payload, x, t.state, ws);
    };
    auto longer = std::vector<float>(t.dims.n + 1);
    auto const whole = t.payload.first(size), beyond = host_bytes(t.payload.all.data() + 1, size);
    t.template refuses<bad>("x too long", [&] { compress(host_floats(longer), whole); });
    t.template refuses<bad>("x too short", [&] { compress(host_floats(t.x.data(), t.dims.n - 1), whole); });
    t.template refuses<bad>("payload too short", [&] { compress(host_floats(t.x), whole.first(size - 1)); });
    t.template refuses<bad>("payload misaligned", [&] { compress(host_floats(t.x), beyond); });
    t.template refuses<bad>("out too long", [&] { decompress(whole, host_floats(longer)); });
    t.template refuses<bad>("out too short", [&] { decompress(whole, host_floats(t.out.data(), t.dims.n - 1)); });
    t.template refuses<bad>("payload too short", [&] { decompress(whole.first(size - 1), host_floats(t.out)); });
    t.template refuses<bad>("payload misaligned", [&] { decompress(beyond, host_floats(t.out)); });
    auto const enough = pith::workspace_bytes<float>(pith::seq, t.codec, t.dims);
    t.needs("decompress", enough,
            [&](auto& few) { pith::decompress(pith::seq, t.codec, whole, host_floats(t.out), t.state, few); });
    t.needs("compress", enough,
            [&](auto& few) { pith::compress(pith::seq, t.codec, host_floats(t.x), whole, t.state, few); });
  });
}

TEST_CASE("a refused all_reduce_mean changes nothing") {
  with_trials([](auto&& t) {
    auto comm = pith::self_communicator();
    auto const memory = aligned_bytes(t.scratch());
    auto ws = pith::workspace<>(memory.first(t.scratch()));
    auto longer = std::vector<float>(t.dims.n + 1);
    t.template refuses<std::invalid_argument>(
        "too long", [&] { pith::all_reduce_mean<float>(pith::seq, comm, t.codec, host_floats(longer), t.state, ws); });
    auto other = pith::make_state<float>(pith::seq, t.codec, t.dims, {7, 3, 1});
    t.template refuses<std::invalid_argument>("of another rank", [&] {
      pith::all_reduce_mean<float>(pith::seq, comm, t.codec, host_floats(t.x), other, ws);
    });
    t.needs("all_reduce_mean", t.scratch(),
            [&](auto& few) { pith::all_reduce_mean<float>(pith::seq, comm, t.codec, host_floats(t.x), t.state, few); });
  });
}

TEST_CASE("a refused step of a part of a tensor changes nothing") {
  auto comm = pith::self_communicator();
  for (std::uint64_t const n : {1u, 300u, 5000u}) {
    auto t = tensor_trial<pith::qsgd<4>>(pith::qsgd<4>(), {n});
    auto const over = pith::parts_for(n, 1, t.codec);
    t.needs("reduce_scatter_mean", pith::reduce_scatter_mean_workspace_bytes<float>(pith::seq, t.codec, over, 1),
            [&](auto& few) {
              pith::reduce_scatter_mean<float>(pith::seq, comm, t.codec, over, host_floats(t.x), host_floats(t.out),
                                               t.state, few);
            });
    t.needs("all_gather", pith::all_gather_workspace_bytes<float>(pith::seq, t.codec, over, 1), [&](auto& few) {
      pith::all_gather<float>(pith::seq, comm, t.codec, over, host_floats(t.x), host_floats(t.out), t.state, few);
    });
  }
}

TEST_CASE("a refused frame changes nothing") {
  for (std::uint64_t const n : {1u, 300u, 5000u}) {
    auto t = tensor_trial<pith::qsgd<4>>(pith::qsgd<4>(), {n});
    auto frame = aligned_bytes(pith::wire::frame_bytes<float>(t.codec, t.dims));
    auto const whole = frame.first(frame.all.size());
    auto const most = pith::wire::workspace_bytes<float>(pith::seq, t.codec, t.dims);
    t.needs("seal", most,
            [&](auto& few) { pith::wire::seal(pith::seq, t.codec, host_floats(t.x), whole, t.state, few); });
    t.needs("open", most,
            [&](auto& few) { pith::wire::open(pith::seq, t.codec, whole, host_floats(t.out), t.state, few); });
  }
}

TEST_CASE("the state of a chain of other stages is refused") {
  auto t = tensor_trial<any>(pith::parse<float>("top_k(0.5)"), {300});
  auto const codec = pith::parse<float>("top_k(0.5)|qsgd<4>");
  auto const memory = aligned_bytes(1 << 20);
  auto ws = pith::workspace<>(memory.first(1 << 20));
  auto const bytes = pith::payload_bytes<float>(codec, t.dims);
  auto const payload = aligned_bytes(bytes);
  t.refuses<std::invalid_argument>(
      "compress", [&] { pith::compress(pith::seq, codec, host_floats(t.x), payload.first(bytes), t.state, ws); });
}
