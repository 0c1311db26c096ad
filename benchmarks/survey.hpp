// benchmarks/survey.hpp — methods of pith/survey by their names, which no parser knows.
#pragma once

#include <pith/core/any_codec.hpp>
#include <pith/survey/adaptive_threshold.hpp>
#include <pith/survey/inceptionn.hpp>
#include <pith/survey/sketch_ml.hpp>

#include <optional>
#include <string>

namespace bench {

/// The method that a name says, if it is one of the catalogue.
inline std::optional<pith::any_codec<float, pith::seq_executor>> survey_codec(std::string const& name) {
  using codec = pith::any_codec<float, pith::seq_executor>;
  for (auto const& c : {codec(pith::inceptionn()), codec(pith::inceptionn(pith::byte_field::repaired)),
                        codec(pith::adaptive_threshold(0.01)), codec(pith::sketch_ml<6>())}) {
    if (c.name() == name) return c;
  }
  return std::nullopt;
}

}  // namespace bench
