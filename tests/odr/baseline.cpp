// tests/odr/baseline.cpp — the unit that is compiled for any CPU.
#include "odr/report.hpp"

static_assert(pith::min_isa == pith::isa::baseline);

unit_report report_of_baseline() { return report_of_unit(); }
