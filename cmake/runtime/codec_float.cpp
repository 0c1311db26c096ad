// cmake/runtime/codec_float.cpp — compiles chains, collectives and exchanges for float.
#include "compiled.hpp"

namespace pith { inline namespace PITH_ABI {

template any_chain<float, runtime::host> runtime_parser<float>::chain(syntax::pipeline const&);
template any_codec<float, runtime::host> runtime_parser<float>::codec(syntax::pipeline const&);

}}  // namespace pith::PITH_ABI
