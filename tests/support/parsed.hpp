// tests/support/parsed.hpp — parse on seq, which instantiates every stage, compiled once for all tests. Other
// element types than float are in the library pith_test_parse_others.
#pragma once

#include <pith/parse.hpp>

#include <string_view>

// For narrow elements too, the chain inside error feedback is one of floats.
extern template pith::any_chain<float, pith::seq_executor>
pith::parser<float, pith::seq_executor, pith::all_methods>::chain(pith::syntax::pipeline const&);
extern template pith::any_codec<float, pith::seq_executor> pith::parse<float, pith::seq_executor>(std::string_view);
extern template pith::any_codec<double, pith::seq_executor> pith::parse<double, pith::seq_executor>(std::string_view);
extern template pith::any_codec<pith::half, pith::seq_executor> pith::parse<pith::half, pith::seq_executor>(
    std::string_view);
extern template pith::any_codec<pith::bfloat16, pith::seq_executor> pith::parse<pith::bfloat16, pith::seq_executor>(
    std::string_view);
