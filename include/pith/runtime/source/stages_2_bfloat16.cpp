// pith/runtime/source/stages_2_bfloat16.cpp — compiles a third of the stages for bfloat16.
#include <pith/runtime/source/compiled.hpp>

namespace pith::inline PITH_ABI {

template any_stage<bfloat16, runtime::host> runtime_parser<bfloat16>::stage<9>(syntax::term const&);

}  // namespace pith::inline PITH_ABI
