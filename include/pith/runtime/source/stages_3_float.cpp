// pith/runtime/source/stages_3_float.cpp — compiles a third of the stages for float.
#include <pith/runtime/source/compiled.hpp>

namespace pith::inline PITH_ABI {

template any_stage<float, runtime::host> runtime_parser<float>::stage<18>(syntax::term const&);

}  // namespace pith::inline PITH_ABI
