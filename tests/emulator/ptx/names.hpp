// tests/emulator/ptx/names.hpp — which slot of a frame a name of a function means.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ptx/module.hpp"

namespace emulator {

/// Adds slots to the function's frame as names are declared and used.
class name_table {
 public:
  explicit name_table(function& f);

  void open_scope() { scopes_.emplace_back(); }
  void close_scope() { scopes_.pop_back(); }

  void add_register(std::string const& name);
  /// Those of a prefix and a number, such as %r<14>.
  void add_registers(std::string const& prefix);
  /// The address of a variable or parameter.
  void declare(std::string const& name, base from, std::uint64_t offset);

  std::uint32_t constant(std::uint64_t bits);
  /// Of a register, special register, variable or parameter; 0 of any other name.
  std::uint32_t find(std::string const& name);

 private:
  struct scope {
    std::map<std::string, std::uint32_t> slots;
    std::set<std::string> prefixes;
  };

  std::uint32_t slot_with(std::uint64_t value);
  std::uint32_t special_slot(special s);
  std::uint32_t variable_slot(variable const& v);

  function& f_;
  std::vector<scope> scopes_;
  std::map<std::uint64_t, std::uint32_t> constants_;
};

}  // namespace emulator
