// tests/exec/cuda_feedback.cu — feedback policies on a device, with the bytes of seq.
#include "support/device.hpp"
#include "support/exchanged.hpp"
#include "support/policies.hpp"

using namespace support;

namespace {

/// Three steps on the device make the bytes of three on the host.
template <class In>
struct same_exchange {
  template <class C>
  void operator()(C const& codec) const {
    CAPTURE(codec.name());
    auto const stream = own_stream();
    for (std::uint64_t const n : {1u, 100'003u})
      CHECK(exchanged<In>(pith::on(stream.get()), codec, {n}) == exchanged<In>(pith::seq, codec, {n}));
  }
};

}  // namespace

TEST_CASE_TEMPLATE("policies have the bytes of seq", In, float, pith::bfloat16) { with_policies(same_exchange<In>()); }
