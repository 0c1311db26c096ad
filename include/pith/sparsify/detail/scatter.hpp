// pith/sparsify/detail/scatter.hpp — a scatter of values to indices.
#pragma once

#include <pith/config.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

template <class In>
struct scatter_at {
  In const* values;
  std::uint32_t const* indices;
  In* x;
  PITH_HD void operator()(std::uint64_t i) const { x[indices[i]] = values[i]; }
};

}}}  // namespace pith::PITH_ABI::detail
