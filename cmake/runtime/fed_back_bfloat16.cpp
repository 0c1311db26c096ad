// cmake/runtime/fed_back_bfloat16.cpp — compiles error feedback for bfloat16.
#include "compiled.hpp"

namespace pith { inline namespace PITH_ABI {

template any_codec<bfloat16, runtime::host> runtime_parser<bfloat16>::fed_back(syntax::term const&);

}}  // namespace pith::PITH_ABI
