// examples/train/few_codecs.hpp — the codecs of par and cuda: one of each kind, to limit the compile time.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/top_k.hpp>

#include <stdexcept>
#include <string>

namespace train {

template <pith::executor E>
pith::any_codec<float, E> few_codec(std::string const& name) {
  using codec = pith::any_codec<float, E>;
  auto all = std::string();
  for (auto const& c : {codec(pith::identity()), codec(pith::error_feedback(pith::scaled_sign())),
                        codec(pith::error_feedback(pith::power_sgd(2))),
                        codec(pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>()))}) {
    if (c.name() == name) return c;
    all += " " + c.name();
  }
  throw std::invalid_argument("train: \"" + name + "\" runs on seq alone; other executors have" + all);
}

}  // namespace train
