// examples/train/codec_of.hpp — a codec from its text: texts of parse, and the methods of pith/comparison.
#pragma once

#include <pith/codec/any_codec.hpp>
#include <pith/exec/seq.hpp>

#include <string_view>

namespace train {

using any_codec = pith::any_codec<float, pith::seq_executor>;

any_codec codec_of(std::string_view text);

}  // namespace train
