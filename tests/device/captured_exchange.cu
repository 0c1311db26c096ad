// tests/device/captured_exchange.cu — a whole step of an exchange is captured in a graph and replayed.
#include <pith/comm/self.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/top_k.hpp>

#include <numeric>
#include <vector>

#include "support/device.hpp"
#include "support/replayed.hpp"

using namespace support;

namespace {

std::vector<pith::tensor_spec> const tensors = {{"weight", {96 * 40, 96}}, {"bias", {40}}, {"table", {20'011}}};

/// The means of all steps, one after another. `step(exchange, gradients)` runs one step.
template <pith::executor E, class C, class Step>
std::vector<float> received(E const& exec, C const& codec, Step&& step) {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(exec, comm, tensors, pith::any_codec<float, E>(codec), {.seed = 5});
  auto const g = pith::buffer<float, E>(exec, exchange.size());
  auto all = std::vector<float>();
  for (unsigned t = 0; t < 5; ++t) {
    auto own = narrow<float>(normal_vector(g.size(), 90 + t));
    exec.upload(g.data(), own.data(), g.size_bytes());
    exec.wait();
    step(exchange, g.view());
    exec.download(own.data(), g.data(), g.size_bytes());
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

template <class C>
void same_replayed(C const& codec) {
  CAPTURE(codec.name());
  auto const stream = own_stream();
  auto const expected = received(pith::seq, codec, at_once());
  CHECK(received(pith::on(stream.get()), codec, at_once()) == expected);
  CHECK(received(pith::on(stream.get()), codec, replayed(stream.get(), at_once())) == expected);
}

/// The sums of the means of each step, in which two gradients of several buckets take turns. `step(exchange, which, g)`
/// runs a step for one of the gradients.
template <pith::executor E, class C, class Step>
std::vector<double> in_turn(E const& exec, C const& codec, Step&& step) {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(exec, comm, tensors, pith::any_codec<float, E>(codec),
                                             {.seed = 5, .bucket_bytes = 20'000});
  pith::buffer<float, E> const gradients[] = {{exec, exchange.size()}, {exec, exchange.size()}};
  auto own = std::vector<float>(exchange.size());
  auto sums = std::vector<double>();
  for (unsigned t = 0; t < 100; ++t) {
    auto const& g = gradients[t % 2];
    own = narrow<float>(normal_vector(g.size(), 90 + t % 7));
    exec.upload(g.data(), own.data(), g.size_bytes());
    exec.wait();
    step(exchange, t % 2, g.view());
    exec.download(own.data(), g.data(), g.size_bytes());
    sums.push_back(std::accumulate(own.begin(), own.end(), 0.0));
  }
  return sums;
}

}  // namespace

TEST_CASE("graphs over two gradients are replayed in turn") {
  auto const codec = pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>());
  auto const stream = own_stream();
  auto const expected =
      in_turn(pith::seq, codec, [](auto& exchange, unsigned, auto g) { exchange.all_reduce_mean(g); });
  replayed<at_once> graphs[] = {{stream.get(), at_once()}, {stream.get(), at_once()}};
  auto const got = in_turn(pith::on(stream.get()), codec,
                           [&](auto& exchange, unsigned which, auto g) { graphs[which](exchange, g); });
  CHECK(got == expected);
}

TEST_CASE("a captured step has the bits of seq in each replay") {
  same_replayed(pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>()));
  same_replayed(pith::error_feedback(pith::power_sgd(2)));
}
