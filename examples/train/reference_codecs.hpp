// examples/train/reference_codecs.hpp — the methods of pith/comparison, by their names.
#pragma once

#include "codec_of.hpp"

#include <pith/comparison/adaptive_threshold.hpp>
#include <pith/comparison/inceptionn.hpp>
#include <pith/comparison/sketch_ml.hpp>
#include <pith/feedback/error_feedback.hpp>

#include <optional>
#include <string_view>

namespace train {

/// The codecs that parse does not include, each at its listed setting, by name().
inline std::optional<any_codec> reference_codec(std::string_view name) {
  for (auto const& codec :
       {any_codec(pith::inceptionn()), any_codec(pith::inceptionn(pith::byte_field::repaired)),
        any_codec(pith::adaptive_threshold(0.01)), any_codec(pith::error_feedback(pith::adaptive_threshold(0.01))),
        any_codec(pith::sketch_ml<6>()), any_codec(pith::error_feedback(pith::sketch_ml<6>(), pith::unverified))}) {
    if (codec.name() == name) return codec;
  }
  return std::nullopt;
}

}  // namespace train
