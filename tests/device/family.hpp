// tests/device/family.hpp — one family of cases on an executor. It is compiled twice: for a device and for seq.
//
// CMake defines PITH_TEST_FAMILY and the header that has its cases.
#pragma once

#include "support/outcomes.hpp"
#include PITH_TEST_FAMILY_HEADER

#include <vector>

namespace device {

template <class In, pith::executor E>
std::vector<support::outcome> outcomes_on(E const& exec) {
  auto outcomes = support::outcomes<In, E>(exec);
  PITH_TEST_FAMILY(outcomes);
  return outcomes.take();
}

/// ... on seq, by the host's compiler, which takes a fraction of nvcc's time.
template <class In>
std::vector<support::outcome> outcomes_on_seq();

}  // namespace device
