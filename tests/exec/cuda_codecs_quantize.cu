// tests/exec/cuda_codecs_quantize.cu — quantizers of every element type on a device, with the bytes of seq.
#include <pith/coding/trits.hpp>
#include <pith/comm/all_reduce_mean.hpp>
#include <pith/comm/self.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/quantize/summed_terngrad.hpp>

#include "support/codecs.hpp"
#include "support/device.hpp"

using namespace support;

namespace {

/// What a group of one receives.
template <class E, class C>
std::vector<float> exchanged(E const& exec, C const& codec, std::uint64_t n) {
  auto const x = narrow<float>(normal_vector(n, 78));
  auto gradient = pith::buffer<float, E>(exec, n);
  exec.upload(gradient.data(), x.data(), gradient.size_bytes());
  auto state = pith::make_state<float>(exec, codec, {n});
  auto scratch = pith::buffer<std::byte, E>(exec, pith::workspace_bytes<float>(exec, codec, {n}, 1));
  auto ws = pith::workspace_on<E>(scratch.view());
  auto alone = pith::self_communicator();
  pith::all_reduce_mean(exec, alone, codec, gradient.view(), state, ws);
  auto received = std::vector<float>(n);
  exec.download(received.data(), gradient.data(), gradient.size_bytes());
  return received;
}

template <class C>
void same_exchange(C const& codec) {
  for (std::uint64_t const n : {1u, 65u, 100'003u}) {
    CAPTURE(codec.name());
    CAPTURE(n);
    auto const stream = own_stream();
    CHECK(exchanged(pith::on(stream.get()), codec, n) == exchanged(pith::seq, codec, n));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("quantizers have the bytes of seq", In, float, pith::half, pith::bfloat16) {
  for (std::uint64_t const n : {1u, 2047u, 2049u, 100'003u}) with_quantizers(n, same_on_device<In>());
}

TEST_CASE("means of quantizers have the bits of seq") {
  for (std::uint64_t const n : {1u, 2047u, 2049u, 100'003u}) {
    same_sum_on_device<float>()(pith::qsgd<8>(), {n});
    same_sum_on_device<float>()(pith::qsgd<4>(), {n});
    same_sum_on_device<float>()(pith::scaled_sign(), {n});
    same_sum_on_device<float>()(pith::sign(), {n});
  }
}

TEST_CASE("quantizers of double have the bytes of seq where no sum is of inexact squares") {
  using pith::norm;
  for (std::uint64_t const n : {1u, 2047u, 2049u, 100'003u}) {
    same_on_device<double>()(pith::scaled_sign(1000), {n});
    same_on_device<double>()(pith::eight_bit(), {n});
    same_on_device<double>()(pith::natural<9>(), {n});
    same_on_device<double>()(pith::eight_bit(128, pith::snap::floor), {n});
    same_on_device<double>()(pith::qsgd<8>(127, 128, norm::max), {n});
    same_on_device<double>()(pith::error_feedback(pith::scaled_sign()), {n});
  }
}

TEST_CASE("votes, shared scales, rows and trits have the bits of seq") {
  same_exchange(pith::sign(pith::ties::zero));
  same_exchange(pith::summed_sign());
  same_exchange(pith::summed_terngrad());
  same_on_device<float>()(pith::one_bit<pith::axis::row>(), {100'002, 6});
  same_on_device<float>()(pith::trits(pith::terngrad()), {100'003});
}

/// Its squares are inexact in double, so that a device may round their sums otherwise: compiled, not compared.
template std::vector<std::byte> support::executed<double>(pith::cuda_executor const&, pith::qsgd<8> const&,
                                                          pith::shape);
