// tests/support/parsed.cpp — where it is compiled.
#include <pith/parse.hpp>

#include <string_view>

template pith::any_codec<float, pith::seq_executor> pith::parse<float, pith::seq_executor>(std::string_view);
