// pith/runtime/source/fed_back_float.cpp — compiles error feedback for float.
#include <pith/runtime/source/compiled.hpp>

namespace pith::inline PITH_ABI {

template any_codec<float, runtime::host> runtime_parser<float>::fed_back(syntax::term const&);

}  // namespace pith::inline PITH_ABI
