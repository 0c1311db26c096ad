// tests/exec/cuda_codecs_quantize.cu — quantizers of every element type on a device, with the bytes of seq.
#include "support/codecs.hpp"
#include "support/device.hpp"

using namespace support;

TEST_CASE_TEMPLATE("quantizers have the bytes of seq", In, float, pith::half, pith::bfloat16) {
  for (std::uint64_t const n : {1u, 2047u, 2049u, 100'003u}) with_quantizers(n, same_on_device<In>());
}

TEST_CASE("quantizers of double have the bytes of seq where no sum is of inexact squares") {
  using pith::norm;
  for (std::uint64_t const n : {1u, 2047u, 2049u, 100'003u}) {
    same_on_device<double>()(pith::scaled_sign(1000), {n});
    same_on_device<double>()(pith::eight_bit(), {n});
    same_on_device<double>()(pith::eight_bit(128, pith::snap::floor), {n});
    same_on_device<double>()(pith::qsgd<8>(127, 128, norm::max), {n});
    same_on_device<double>()(pith::error_feedback(pith::scaled_sign()), {n});
  }
}

/// Its squares are inexact in double, so that a device may round their sums otherwise: compiled, not compared.
template std::vector<std::byte> support::executed<double>(pith::cuda_executor const&, pith::qsgd<8> const&,
                                                          pith::shape);
