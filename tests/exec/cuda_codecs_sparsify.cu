// tests/exec/cuda_codecs_sparsify.cu — sparsifiers and chains of every element type on a device, with the bytes of seq.
#include "support/codecs.hpp"
#include "support/device.hpp"

using namespace support;

TEST_CASE_TEMPLATE("random entries have the bytes of seq", In, float, double, pith::half, pith::bfloat16) {
  for (std::uint64_t const n : {1u, 2047u, 100'003u}) {
    same_on_device<In>()(pith::random_k(0.1), {n});
    same_on_device<In>()(pith::random_k<pith::scaling::unbiased>(0.25), {n});
    same_on_device<In>()(pith::random_k<pith::scaling::none, pith::drawing::own>(0.1), {n});
    same_on_device<In>()(pith::random_blocks(0.1, 24), {n});
    same_on_device<In>()(pith::random_blocks<pith::scaling::unbiased>(0.25), {n});
    same_on_device<In>()(pith::random_k(0.5) | pith::qsgd<4>(7, 128, pith::norm::max), {n});
    same_on_device<In>()(pith::error_feedback(pith::random_k(0.5)), {n});
  }
}

TEST_CASE_TEMPLATE("estimated thresholds have the bytes of seq", In, float, double, pith::half, pith::bfloat16) {
  for (std::uint64_t const n : {1u, 2047u, 100'003u}) {
    same_on_device<In>()(pith::redsync(0.01), {n});
    same_on_device<In>()(pith::redsync_mean(0.01), {n});
    same_on_device<In>()(pith::sidco<>(0.01, 2), {n});
    same_on_device<In>()(pith::sidco<pith::magnitudes::pareto>(0.01), {n});
    same_on_device<In>()(pith::sidco<pith::magnitudes::gamma>(0.01), {n});
    same_on_device<In>()(pith::gaussian_k(0.01), {n});
  }
}

TEST_CASE_TEMPLATE("runs of elements have the bytes of seq", In, float, double, pith::half, pith::bfloat16) {
  for (std::uint64_t const n : {1u, 2047u, 100'003u}) with_codebooks(n, same_on_device<In>());
}

TEST_CASE_TEMPLATE("selections have the bytes of seq", In, float, double, pith::half, pith::bfloat16) {
  for (std::uint64_t const n : {1u, 2047u, 100'003u}) {
    same_on_device<In>()(pith::top_k(0.01), {n});
    same_on_device<In>()(pith::threshold(1.5, 0.25), {n});
    same_on_device<In>()(pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>(127, 128, pith::norm::max)), {n});
  }
}

TEST_CASE("means of entries have the bits of seq") {
  for (std::uint64_t const n : {1u, 2047u, 100'003u}) {
    same_sum_on_device<float>()(pith::top_k(0.01), {n});
    same_sum_on_device<pith::bfloat16>()(pith::top_k(0.4), {n});
    same_sum_on_device<float>()(pith::threshold(1.5, 0.25), {n});
    same_sum_on_device<float>()(pith::redsync_mean(0.01), {n});
    same_sum_on_device<float>()(pith::random_k<pith::scaling::none, pith::drawing::own>(0.1), {n});
    same_sum_on_device<float>()(pith::top_k(0.01) | pith::qsgd<8>(127, 128, pith::norm::max), {n});
  }
}
