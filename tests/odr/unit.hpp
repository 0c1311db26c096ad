// tests/odr/unit.hpp — reports of two translation units of one program, compiled for different CPUs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

struct unit_report {
  std::string best;              ///< the name of the largest instruction set of the CPU and the unit
  std::string executor;          ///< the type's name, which all that is instantiated over it contains
  void const* loop;              ///< where the loop over blocks of an empty body begins
  std::vector<std::byte> bytes;  ///< of two steps of a codec
};

unit_report report_of_baseline();
unit_report report_of_avx512();
