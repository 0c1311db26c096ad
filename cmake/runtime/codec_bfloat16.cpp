// cmake/runtime/codec_bfloat16.cpp — compiles chains, collectives and exchanges for bfloat16.
#include "compiled.hpp"

namespace pith { inline namespace PITH_ABI {

template any_chain<bfloat16, runtime::host> runtime_parser<bfloat16>::chain(syntax::pipeline const&);
template any_codec<bfloat16, runtime::host> runtime_parser<bfloat16>::codec(syntax::pipeline const&);

}}  // namespace pith::PITH_ABI
