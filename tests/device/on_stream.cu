// tests/device/on_stream.cu — a family of cases on a device has the bytes of seq.
//
// nvcc takes up to half a minute for an element type. With PITH_TEST_FLOAT_ONLY a program has one of the four.
#include <pith/exec/cuda_executor.hpp>

#include <doctest/doctest.h>

#include <string_view>

#include "device/family.hpp"
#include "support/own_stream.hpp"

#ifdef PITH_TEST_FLOAT_ONLY
#define PITH_TEST_ELEMENTS float
#else
#define PITH_TEST_ELEMENTS float, double, pith::half, pith::bfloat16
#endif

namespace {

/// Whether the device is emulated. Inexact sums are compared there alone: that shows that the PTX of nvcc sums in the
/// order of seq and loses no more than a scale's last bits, not that a device does, for which ptxas may contract more.
bool is_emulated() {
  auto device = cudaDeviceProp();
  pith::check_cuda(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  return std::string_view(device.name).find("emulator") != std::string_view::npos;
}

}  // namespace

TEST_CASE_TEMPLATE("a device has the bytes of seq", In, PITH_TEST_ELEMENTS) {
  auto const stream = support::own_stream();
  auto const expected = device::outcomes_on_seq<In>();
  auto const found = device::outcomes_on<In>(pith::on(stream.get()));
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(found[i].name);
    CHECK(!found[i].bytes.empty());
    if (found[i].is_lossless || is_emulated()) CHECK(found[i].bytes == expected[i].bytes);
  }
}
