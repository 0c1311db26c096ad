// cmake/runtime/fed_back_float.cpp — compiles error feedback for float.
#include "compiled.hpp"

namespace pith { inline namespace PITH_ABI {

template any_codec<float, runtime::host> runtime_parser<float>::fed_back(syntax::term const&);

}}  // namespace pith::PITH_ABI
