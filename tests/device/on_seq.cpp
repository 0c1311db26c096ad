// tests/device/on_seq.cpp — a family of cases on seq.
#include <pith/exec/seq.hpp>

#include "device/family.hpp"

template <class In>
std::vector<support::outcome> device::outcomes_on_seq() {
  return outcomes_on<In>(pith::seq);
}

template std::vector<support::outcome> device::outcomes_on_seq<float>();
template std::vector<support::outcome> device::outcomes_on_seq<double>();
template std::vector<support::outcome> device::outcomes_on_seq<pith::half>();
template std::vector<support::outcome> device::outcomes_on_seq<pith::bfloat16>();
