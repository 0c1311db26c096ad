// tests/exec/thrust_cuda_test.cu — Thrust's policies beside each other: host ones, and a stream's on a device.
#include <pith/exec/thrust.hpp>

#include <thrust/device_vector.h>
#include <thrust/system/cpp/execution_policy.h>

#include "support/codecs.hpp"
#include "support/device.hpp"

using namespace support;

namespace {

template <class P>
void has_bytes_of_seq(P const& policy) {
  for (std::uint64_t const n : {1u, 513u, 100'003u}) {
    CHECK(executed<float>(pith::on(policy), pith::random_k(0.1), {n}) ==
          executed<float>(pith::seq, pith::random_k(0.1), {n}));
    CHECK(executed<float>(pith::on(policy), pith::qsgd<8>(), {n}) == executed<float>(pith::seq, pith::qsgd<8>(), {n}));
    CHECK(executed<float>(pith::on(policy), pith::top_k(0.01), {n}) ==
          executed<float>(pith::seq, pith::top_k(0.01), {n}));
  }
}

}  // namespace

TEST_CASE("a host policy has the bytes of seq in a source of nvcc") { has_bytes_of_seq(thrust::cpp::par); }

TEST_CASE("a stream's policy has the bytes of seq") {
  auto const stream = own_stream();
  auto const policy = thrust::cuda::par_nosync.on(stream.get());
  static_assert(std::same_as<pith::space_of<decltype(pith::on(policy))>, pith::device_space>);
  CHECK(pith::on(policy).stream() == stream.get());
  has_bytes_of_seq(policy);
}

TEST_CASE("a device vector becomes a device span") {
  auto x = thrust::device_vector<float>(5, 2.0f);
  static_assert(std::same_as<decltype(pith::view(x)), pith::device_span<float>>);
  CHECK(pith::view(x).size() == 5);
  CHECK(pith::view(x).data() == thrust::raw_pointer_cast(x.data()));
}
