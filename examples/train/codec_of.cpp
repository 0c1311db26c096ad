// examples/train/codec_of.cpp — all codecs of the program, in a source of their own, since they take most of its compile time.
#include "codec_of.hpp"

#include <pith/feedback/error_feedback.hpp>
#include <pith/parse.hpp>
#include <pith/reference/adaptive_threshold.hpp>
#include <pith/reference/inceptionn.hpp>
#include <pith/reference/sketch_ml.hpp>

#include <optional>

namespace train {

namespace {

/// The codecs that parse does not include, each at its listed setting, by name().
std::optional<any_codec> reference_codec(std::string_view name) {
  for (auto const& codec :
       {any_codec(pith::inceptionn()), any_codec(pith::inceptionn(pith::byte_field::repaired)),
        any_codec(pith::adaptive_threshold(0.01)), any_codec(pith::error_feedback(pith::adaptive_threshold(0.01))),
        any_codec(pith::sketch_ml<6>()), any_codec(pith::error_feedback(pith::sketch_ml<6>(), pith::unverified))}) {
    if (codec.name() == name) return codec;
  }
  return std::nullopt;
}

}  // namespace

any_codec codec_of(std::string_view text) {
  auto const method = reference_codec(text);
  return method ? *method : pith::parse<float>(text);
}

}  // namespace train
