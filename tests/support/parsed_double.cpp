// tests/support/parsed_double.cpp — instantiates parse<double>.
#include <pith/parse.hpp>

#include <string_view>

template pith::any_codec<double, pith::seq_executor> pith::parse<double, pith::seq_executor>(std::string_view);
