// cmake/runtime/fused_float.cpp — compiles chains of a rotation and a quantizer for float.
#include "compiled.hpp"

namespace pith { inline namespace PITH_ABI {

template std::optional<any_stage<float, runtime::host>> runtime_parser<float>::fused(syntax::pipeline const&);

}}  // namespace pith::PITH_ABI
