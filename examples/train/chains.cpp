// examples/train/chains.cpp — the stages of all chains, compiled beside codec_of.cpp.
#include <pith/parse.hpp>

template pith::any_chain<float, pith::seq_executor> pith::parser<float, pith::seq_executor, pith::all_methods>::chain(
    pith::syntax::pipeline const&);
