// tests/emulator/ptx/names.cpp — see names.hpp.
#include "ptx/names.hpp"

#include "ptx/specials.hpp"

namespace emulator {

namespace {

constexpr std::uint64_t garbage = 0xbad0bad1bad2bad3u;  // in registers that nothing has written

}  // namespace

name_table::name_table(function& f) : f_(f), scopes_(1) { f_.frame.assign(1, 0); }

void name_table::add_register(std::string const& name) { scopes_.back().slots[name] = slot_with(garbage); }

void name_table::add_registers(std::string const& prefix) { scopes_.back().prefixes.insert(prefix); }

void name_table::declare(std::string const& name, base from, std::uint64_t offset) {
  auto const slot = slot_with(garbage);
  scopes_.back().slots[name] = slot;
  f_.addresses.push_back({slot, from, offset});
}

std::uint32_t name_table::constant(std::uint64_t bits) {
  auto const [at, is_new] = constants_.try_emplace(bits, 0);
  if (is_new) at->second = slot_with(bits);
  return at->second;
}

std::uint32_t name_table::find(std::string const& name) {
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s) {
    if (auto const at = s->slots.find(name); at != s->slots.end()) return at->second;
    auto const digits = name.find_last_not_of("0123456789") + 1;
    auto const is_register = digits < name.size() && s->prefixes.count(name.substr(0, digits)) > 0;
    if (is_register) return s->slots[name] = slot_with(garbage);
  }
  if (name == "WARP_SZ") return constant(32);
  auto& of_function = scopes_.front().slots;
  if (auto const* const s = special_of(name)) return of_function[name] = special_slot(*s);
  auto const at = f_.owner->variables.find(name);
  return at == f_.owner->variables.end() ? 0 : of_function[name] = variable_slot(at->second);
}

std::uint32_t name_table::slot_with(std::uint64_t value) {
  f_.frame.push_back(value);
  return static_cast<std::uint32_t>(f_.frame.size() - 1);
}

std::uint32_t name_table::special_slot(special s) {
  auto const slot = slot_with(garbage);
  f_.specials.emplace_back(slot, s);
  return slot;
}

/// Shared variables are laid out in the order of their first use.
std::uint32_t name_table::variable_slot(variable const& v) {
  auto const slot = slot_with(v.address);
  if (v.of == variable::kind::dynamic_shared) f_.addresses.push_back({slot, base::dynamic_shared, 0});
  if (v.of == variable::kind::shared) {
    f_.shared_bytes = align_up(f_.shared_bytes, v.align);
    f_.addresses.push_back({slot, base::shared, f_.shared_bytes});
    f_.shared_bytes += v.size;
  }
  return slot;
}

}  // namespace emulator
