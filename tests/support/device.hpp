// tests/support/device.hpp — codecs on a stream beside the same on seq.
#pragma once

#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include "support/executed.hpp"
#include "support/own_stream.hpp"

namespace support {

/// Two steps on the device make the bytes of two on the host.
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
