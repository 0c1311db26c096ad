// tests/support/parsed.hpp — parse of floats on seq, which instantiates every stage: compiled once for all tests.
#pragma once

#include <pith/parse.hpp>

#include <string_view>

extern template pith::any_codec<float, pith::seq_executor> pith::parse<float, pith::seq_executor>(std::string_view);
