// tests/odr/report.hpp — the report of the unit that includes it.
#pragma once

#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/qsgd.hpp>

#include <typeinfo>

#include "odr/unit.hpp"
#include "support/executed.hpp"

namespace {

unit_report report_of_unit() {
  auto const loop = &pith::detail::run_blocks_on<pith::min_isa, pith::detail::idle_block>;
  auto const codec = pith::error_feedback(pith::qsgd<8>());
  return {pith::isa_name(pith::best_isa()), typeid(pith::seq_executor).name(), reinterpret_cast<void const*>(loop),
          support::executed<float>(pith::seq, codec, {1003})};
}

}  // namespace
