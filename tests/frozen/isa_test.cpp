// tests/frozen/isa_test.cpp — the same bytes by each instruction set.
#include <doctest/doctest.h>

#include "frozen/check.hpp"
#include "support/parsed.hpp"

namespace {

/// Calls f(seq) for each instruction set that this processor has.
template <class F>
void with_instruction_sets(F const& f) {
  for (auto const level : {pith::isa::baseline, pith::isa::avx2, pith::isa::avx512}) {
    if (level > pith::best_isa()) continue;
    CAPTURE(pith::isa_name(level));
    f(pith::seq_executor(level));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("all instruction sets make the bytes of the rows", In, float, double, pith::half, pith::bfloat16) {
  with_instruction_sets([](auto const& exec) { frozen::check<In>(exec, "small"); });
}

TEST_CASE("all instruction sets make the bytes of large tensors") {
  with_instruction_sets([](auto const& exec) { frozen::check<float>(exec, "large"); });
}
