// tests/exec/cuda_codecs_lowrank.cu — low rank of every element type on a device, where its sums may round otherwise.
#include <pith/core/chain.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/quantize/summed_terngrad.hpp>
#include <pith/vector/conv_shape.hpp>
#include <pith/vector/pca.hpp>

#include <cmath>

#include "support/codecs.hpp"
#include "support/device.hpp"
#include "support/exchanged.hpp"
#include "support/slices.hpp"

using namespace support;

namespace {

constexpr pith::shape dims = {96 * 40, 96};

}  // namespace

TEST_CASE_TEMPLATE("a matrix of rank one comes back but for rounding", In, float, double, pith::half, pith::bfloat16) {
  auto x = std::vector<double>(dims.n);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(static_cast<double>(i % 40 % 8) - 3.5, static_cast<int>(i / 40 % 4));
  auto const stream = own_stream();
  auto run = execution<In, pith::cuda_executor, pith::power_sgd>(pith::on(stream.get()), pith::power_sgd(1), dims,
                                                                 narrow<In>(x));
  run.step();
  auto const decoded = widen(run.decoded());
  // Rows are powers of two times one row, so that their sums with Q round alike and P is exact but for its scale. An
  // entry of Q is a sum of 96 terms of one sign, each of four roundings at most; the largest entry is 28.
  auto const bound = 28 * (roundoff<In>() + (96 + 8) * roundoff<pith::accum<In>>());
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::abs(decoded[i] - x[i]) <= bound);
}

TEST_CASE_TEMPLATE("equal steps have equal bytes", In, float, double, pith::half, pith::bfloat16) {
  auto const stream = own_stream();
  auto const codec = pith::error_feedback(pith::power_sgd(3));
  auto const exec = pith::on(stream.get());
  CHECK(executed<In>(exec, codec, dims) == executed<In>(exec, codec, dims));
  auto const by_turns = pith::error_feedback(pith::one_sided_power_sgd(3));
  CHECK(exchanged<In>(exec, by_turns, dims) == exchanged<In>(exec, by_turns, dims));
}

TEST_CASE_TEMPLATE("slices along a basis have the bytes of the host", In, float, double, pith::half, pith::bfloat16) {
  auto const kernel = pith::conv_shape{6, 5, 3, 3};
  for (auto const& order : {pith::slice_order(), kernel.order()}) {
    for (std::uint64_t const slice : {30u, 17u}) {
      auto samples = pith::slice_samples<double>(270, slice, order);
      for (std::size_t t = 0; t < 12; ++t) samples.add(pith::span<double const>(correlated(270, slice, 4, t)));
      same_on_device<In>()(pith::pca(pith::pca_basis::fit(samples, {.components = 6})), {270});
    }
  }
}

TEST_CASE("levels of components sum as on the host") {
  auto const codec =
      pith::pca(pith::pca_basis::fit(correlated_samples(270, 30, 4, 12), {.components = 6})) | pith::summed_terngrad();
  auto const stream = own_stream();
  CHECK(exchanged<float>(pith::on(stream.get()), codec, {270}) == exchanged<float>(pith::seq, codec, {270}));
}
