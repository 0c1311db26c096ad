// tests/support/parsed_bfloat16.cpp — instantiates parse<bfloat16>.
#include "support/parsed.hpp"

#include <string_view>

template pith::any_codec<pith::bfloat16, pith::seq_executor> pith::parse<pith::bfloat16, pith::seq_executor>(
    std::string_view);
