// tests/support/parsed_half.cpp — where parse<half> is compiled.
#include "support/parsed.hpp"

#include <string_view>

template pith::any_codec<pith::half, pith::seq_executor> pith::parse<pith::half, pith::seq_executor>(std::string_view);
