// pith/core/scaling.hpp — the choice between the least error and an unbiased result.
#pragma once

#include <pith/core/option.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// Selects whether a codec scales the values that it keeps, so that the expected result equals the input.
enum class scaling : std::uint8_t { none, unbiased };

namespace options {
inline constexpr option<scaling::none> none = {};
inline constexpr option<scaling::unbiased> unbiased = {};
}  // namespace options

}}  // namespace pith::PITH_ABI
