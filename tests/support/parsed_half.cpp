// tests/support/parsed_half.cpp — instantiates parse<half>.
#include "support/parsed.hpp"

#include <string_view>

template pith::any_codec<pith::half, pith::seq_executor> pith::parse<pith::half, pith::seq_executor>(std::string_view);
