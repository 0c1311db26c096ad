// tests/exec/thrust_test.cpp — Thrust's host policies make the bytes of seq, and its vectors become spans.
#include <pith/exec/seq.hpp>
#include <pith/exec/thrust.hpp>

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/system/cpp/execution_policy.h>
#if defined(_OPENMP)
#include <thrust/system/omp/execution_policy.h>
#endif
#if __has_include(<cuda/std/span>)
#include <cuda/std/span>
#endif

#include <doctest/doctest.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "support/codecs.hpp"
#include "support/executed.hpp"

using namespace support;

namespace {

template <class P>
struct same_as_seq {
  P policy;

  template <class C>
  void operator()(C const& codec, pith::shape dims) const {
    CAPTURE(codec.name());
    CHECK(executed<float>(pith::on(policy), codec, dims) == executed<float>(pith::seq, codec, dims));
  }
};
template <class P>
same_as_seq(P) -> same_as_seq<P>;

struct halved {
  float* x;
  void operator()(std::uint64_t i) const { x[i] *= 0.5f; }
};

static_assert(pith::detail::host_executor<decltype(pith::on(thrust::seq))>);
static_assert(pith::detail::host_executor<decltype(pith::on(thrust::cpp::par))>);
static_assert(!pith::detail::thrust_policy<int>);

}  // namespace

TEST_CASE("sequential and cpp policies have the bytes of seq") {
  for (std::uint64_t const n : {1u, 513u, 50'003u}) {
    with_kinds_of_quantizers(n, same_as_seq{thrust::seq});
    with_kinds_of_quantizers(n, same_as_seq{thrust::cpp::par});
  }
  with_codecs(50'003, same_as_seq{thrust::cpp::par});
}

#if defined(_OPENMP)
TEST_CASE("the omp policy has the bytes of seq") {
  for (std::uint64_t const n : {1u, 513u, 50'003u}) with_kinds_of_quantizers(n, same_as_seq{thrust::omp::par});
}

#if defined(__x86_64__)
TEST_CASE("OpenMP threads that flush subnormals do not change elementwise loops") {
  auto const usual = _mm_getcsr();
#pragma omp parallel
  _mm_setcsr(usual | 0x8040u);
  auto x = std::vector<float>(100'000, 0x1p-126f);
  pith::on(thrust::omp::par).for_each_index(x.size(), halved{x.data()});
#pragma omp parallel
  _mm_setcsr(usual);
  CHECK(std::ranges::count(x, 0x1p-127f) == 100'000);
}
#endif
#endif

TEST_CASE("vectors become spans of their elements") {
  auto on_device = thrust::device_vector<float>(5, 2.0f);
  auto const on_host = thrust::host_vector<float>(3, 3.0f);
  auto const x = pith::view(on_device);
  static_assert(std::same_as<decltype(pith::view(on_device)), pith::span<float>>);
  static_assert(std::same_as<decltype(pith::view(on_host)), pith::span<float const>>);
  CHECK(x.size() == 5);
  CHECK(x[4] == 2.0f);
  x[4] = 7.0f;
  CHECK(on_device[4] == 7.0f);
  CHECK(pith::view(on_host)[2] == 3.0f);
  CHECK(pith::span<float const>(on_host).data() == on_host.data());
}

#if __has_include(<cuda/std/span>)
TEST_CASE("spans of libcudacxx become spans") {
  auto x = std::vector<float>{1, 2, 3};
  auto const theirs = cuda::std::span<float>(x.data(), x.size());
  auto const ours = pith::span<float const>(theirs);
  CHECK(ours.data() == x.data());
  CHECK(ours.size() == 3);
}
#endif
