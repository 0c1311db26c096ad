// cmake/runtime/stages_3_bfloat16.cpp — compiles a quarter of the stages for bfloat16.
#include "compiled.hpp"

namespace pith { inline namespace PITH_ABI {

template any_stage<bfloat16, runtime::host> runtime_parser<bfloat16>::stage<18>(syntax::term const&);

}}  // namespace pith::PITH_ABI
