// tests/support/device.hpp — compares codecs on a CUDA stream with the same on seq.
#pragma once

#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include "support/executed.hpp"
#include "support/own_stream.hpp"

namespace support {

/// Two steps on the device give the same bytes as two on the host.
template <class In>
struct same_on_device {
  template <class C>
  void operator()(C const& codec, pith::shape dims) const {
    CAPTURE(codec.name());
    auto const stream = own_stream();
    CHECK(executed<In>(pith::on(stream.get()), codec, dims) == executed<In>(pith::seq, codec, dims));
  }
};

}  // namespace support
