// tests/support/parsed.cpp — instantiates parse<float>.
#include <pith/parse.hpp>

#include <string_view>

template pith::any_chain<float, pith::seq_executor> pith::parser<float, pith::seq_executor, pith::all_methods>::chain(
    pith::syntax::pipeline const&);
template pith::any_codec<float, pith::seq_executor> pith::parse<float, pith::seq_executor>(std::string_view);
