// tests/odr/avx512.cpp — the unit that is compiled for CPUs with AVX-512.
#include "odr/report.hpp"

static_assert(pith::min_isa == pith::isa::avx512);

unit_report report_of_avx512() { return report_of_unit(); }
