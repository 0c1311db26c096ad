// tests/exec/cuda_codecs_sparsify.cu — sparsifiers and chains of every element type on a device, with the bytes of seq.
#include "support/codecs.hpp"
#include "support/device.hpp"

using namespace support;

TEST_CASE_TEMPLATE("random entries have the bytes of seq", In, float, double, pith::half, pith::bfloat16) {
  for (std::uint64_t const n : {1u, 2047u, 100'003u}) {
    same_on_device<In>()(pith::random_k(0.1), {n});
    same_on_device<In>()(pith::random_k<pith::scaling::unbiased>(0.25), {n});
    same_on_device<In>()(pith::random_k(0.5) | pith::qsgd<4>(7, 128, pith::norm::max), {n});
    same_on_device<In>()(pith::error_feedback(pith::random_k(0.5)), {n});
  }
}

/// What selects is compiled for devices here, and runs on hosts only.
#define COMPILE(In)                                                                                           \
  template std::vector<std::byte> support::executed<In>(pith::cuda_executor const&, pith::top_k<> const&,     \
                                                        pith::shape);                                         \
  template std::vector<std::byte> support::executed<In>(                                                      \
      pith::cuda_executor const&, decltype(pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>())) const&, \
      pith::shape);
COMPILE(float)
COMPILE(double)
COMPILE(pith::half)
COMPILE(pith::bfloat16)
