// tests/emulator/ptx/specials.cpp — see specials.hpp.
#include "ptx/specials.hpp"

#include <map>

#include "ptx/running.hpp"

namespace emulator {

special const* special_of(std::string const& name) {
  static std::map<std::string, special> const names = {
      {"%tid.x", special::tid_x},
      {"%tid.y", special::tid_y},
      {"%tid.z", special::tid_z},
      {"%ntid.x", special::ntid_x},
      {"%ntid.y", special::ntid_y},
      {"%ntid.z", special::ntid_z},
      {"%ctaid.x", special::ctaid_x},
      {"%ctaid.y", special::ctaid_y},
      {"%ctaid.z", special::ctaid_z},
      {"%nctaid.x", special::nctaid_x},
      {"%nctaid.y", special::nctaid_y},
      {"%nctaid.z", special::nctaid_z},
      {"%laneid", special::laneid},
      {"%warpid", special::warpid},
      {"%nwarpid", special::nwarpid},
      {"%smid", special::smid},
      {"%nsmid", special::nsmid},
      {"%gridid", special::gridid},
      {"%lanemask_eq", special::lanemask_eq},
      {"%lanemask_lt", special::lanemask_lt},
      {"%lanemask_le", special::lanemask_le},
      {"%lanemask_gt", special::lanemask_gt},
      {"%lanemask_ge", special::lanemask_ge},
      {"%dynamic_smem_size", special::dynamic_smem_size},
      {"%total_smem_size", special::total_smem_size},
  };
  auto const at = names.find(name);
  return at == names.end() ? nullptr : &at->second;
}

std::uint64_t special_value(launch const& l, block const& b, thread const& t, special s) {
  constexpr unsigned multiprocessors = 132, warps = 64;
  auto const i = t.index;
  auto const below = (1u << t.lane) - 1, own = 1u << t.lane;
  switch (s) {
    case special::tid_x: return i % l.size.x;
    case special::tid_y: return i / l.size.x % l.size.y;
    case special::tid_z: return i / l.size.x / l.size.y;
    case special::ntid_x: return l.size.x;
    case special::ntid_y: return l.size.y;
    case special::ntid_z: return l.size.z;
    case special::ctaid_x: return b.at.x;
    case special::ctaid_y: return b.at.y;
    case special::ctaid_z: return b.at.z;
    case special::nctaid_x: return l.grid.x;
    case special::nctaid_y: return l.grid.y;
    case special::nctaid_z: return l.grid.z;
    case special::laneid: return t.lane;
    case special::warpid: return t.warp;
    case special::nwarpid: return warps;
    case special::smid: return b.number % multiprocessors;
    case special::nsmid: return multiprocessors;
    case special::gridid: return b.of->kernels;
    case special::lanemask_eq: return own;
    case special::lanemask_lt: return below;
    case special::lanemask_le: return below | own;
    case special::lanemask_gt: return ~(below | own);
    case special::lanemask_ge: return ~below;
    case special::dynamic_smem_size: return l.dynamic_shared;
    case special::total_smem_size: return b.shared_bytes;
  }
  return 0;
}

}  // namespace emulator
