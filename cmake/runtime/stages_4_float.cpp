// cmake/runtime/stages_4_float.cpp — compiles a quarter of the stages for float.
#include "compiled.hpp"

namespace pith { inline namespace PITH_ABI {

template any_stage<float, runtime::host> runtime_parser<float>::stage<27>(syntax::term const&);

}}  // namespace pith::PITH_ABI
