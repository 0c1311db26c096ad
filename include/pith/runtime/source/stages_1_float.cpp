// pith/runtime/source/stages_1_float.cpp — compiles a third of the stages for float.
#include <pith/runtime/source/compiled.hpp>

namespace pith::inline PITH_ABI {

template any_stage<float, runtime::host> runtime_parser<float>::stage<0>(syntax::term const&);

}  // namespace pith::inline PITH_ABI
