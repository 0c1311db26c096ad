// tests/exec/cuda_dispatch.cu — host loops for every instruction set in a source of nvcc, built as users build it.
#include <pith/quantize/natural.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/sparsify/top_k.hpp>

#include "support/device.hpp"

#if !PITH_ISA_DISPATCH
#error "PITH_NO_ISA_DISPATCH and -O0 leave out the loops of this test"
#endif

using namespace support;

namespace {

/// On the device, and on the host with every instruction set that its CPU has.
template <class In, class C>
void same_with_every_instruction_set(C const& codec) {
  auto const dims = pith::shape{2049};
  auto const stream = own_stream();
  auto const on_device = executed<In>(pith::on(stream.get()), codec, dims);
  for (auto const level : {pith::isa::baseline, pith::isa::avx2, pith::isa::avx512}) {
    if (level > pith::best_isa()) continue;
    CAPTURE(codec.name());
    CAPTURE(pith::isa_name(level));
    CHECK(executed<In>(pith::seq_executor(level), codec, dims) == on_device);
  }
}

}  // namespace

// Signs, a selection and random numbers: the three things that have loops of their own (exec/detail/host_team.hpp).
TEST_CASE_TEMPLATE("loops for each instruction set have the device's bytes", In, float, pith::half) {
  same_with_every_instruction_set<In>(pith::sign());
  same_with_every_instruction_set<In>(pith::top_k(0.1));
  same_with_every_instruction_set<In>(pith::natural<8>());
}
