// pith/runtime/source/stages_2_float.cpp — compiles a third of the stages for float.
#include <pith/runtime/source/compiled.hpp>

namespace pith::inline v0 {

template any_stage<float, runtime::host> runtime_parser<float>::stage<9>(syntax::term const&);

}  // namespace pith::inline v0
