// pith/comparison/detail/for_comparison.hpp — a check of element type and executor for reference methods.
#pragma once

#include <pith/exec/seq.hpp>

#include <concepts>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// For an element type other than float, or an executor other than seq, the instantiation fails to compile with a
/// message.
template <class In, class E>
struct for_comparison {
  static_assert(std::same_as<In, float>,
                "pith: a method of pith/comparison is kept for comparison and takes float: write error_feedback(c) "
                "around it for half and bfloat16, or take a codec of pith/quantize or pith/sparsify");
  static_assert(std::same_as<E, seq_executor>,
                "pith: a method of pith/comparison is kept for comparison and runs on seq: for other executors take a "
                "codec of pith/quantize or pith/sparsify");
};

}}}  // namespace pith::PITH_ABI::detail
