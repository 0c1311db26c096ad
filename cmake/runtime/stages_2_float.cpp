// cmake/runtime/stages_2_float.cpp — compiles a quarter of the stages for float.
#include "compiled.hpp"

namespace pith { inline namespace PITH_ABI {

template any_stage<float, runtime::host> runtime_parser<float>::stage<9>(syntax::term const&);

}}  // namespace pith::PITH_ABI
