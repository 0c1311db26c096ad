// benchmarks/grace/methods.hpp — the evaluated methods and their codecs.
#pragma once

#include "../../examples/train/codec_of.hpp"
#include "../../examples/train/methods.hpp"
#include "../subject.hpp"

#include <range/v3/algorithm/contains.hpp>

#include <string_view>

namespace grace {

using train::codec_of, train::method, train::methods;

/// The references of the comparison, in this order.
inline constexpr method const& dense_float = methods[0];
inline constexpr method const& dense_bfloat16 = methods[1];

/// Whether a method of this name was selected. Without a selection all are.
template <class Names>
bool is_wanted(Names const& names, std::string_view name) {
  return names.empty() || ranges::contains(names, name);
}

}  // namespace grace
