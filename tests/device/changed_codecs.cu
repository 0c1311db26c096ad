// tests/device/changed_codecs.cu — a change of codecs keeps the feedback in device memory.
#include <pith/adaptor/identity.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/top_k.hpp>

#include <cstring>
#include <vector>

#include "support/device.hpp"

using namespace support;

namespace {

/// The means of all steps, one after another. Each step has another codec.
template <class In, pith::executor E>
std::vector<In> received_in_changes(E const& exec) {
  using pith::error_feedback, pith::identity, pith::top_k, pith::two_shot, pith::scaled_sign;
  using codec = pith::any_codec<In, E>;
  auto const codecs = {codec(error_feedback(top_k(0.1))),
                       codec(identity()),
                       codec(error_feedback(top_k(0.1), pith::ef_sign(0.25))),
                       codec(error_feedback(two_shot(top_k(0.1), error_feedback(scaled_sign())))),
                       codec(error_feedback(top_k(0.1), pith::momentum_correction(0.5))),
                       codec(two_shot(identity(), error_feedback(scaled_sign()))),
                       codec(identity())};
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<In>(exec, comm, {{"weight", {3000, 30}}, {"bias", {41}}}, codec(identity()));
  auto const g = pith::buffer<In, E>(exec, exchange.size());
  auto all = std::vector<In>();
  for (auto const& next : codecs) {
    auto own = narrow<In>(normal_vector(g.size(), 90));
    exchange.change({next, next});
    exec.upload(g.data(), own.data(), g.size_bytes());
    exchange.all_reduce_mean(g.view());
    exec.download(own.data(), g.data(), g.size_bytes());
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

template <class In>
void same_in_changes() {
  auto const stream = own_stream();
  auto const expected = received_in_changes<In>(pith::seq), got = received_in_changes<In>(pith::on(stream.get()));
  CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(In)) == 0);
}

}  // namespace

TEST_CASE("means on a device have the bits of seq while codecs change - float") { same_in_changes<float>(); }
TEST_CASE("means on a device have the bits of seq while codecs change - half") { same_in_changes<pith::half>(); }
