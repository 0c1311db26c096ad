// pith/runtime/any_codec.hpp — a compiled codec, constructed from its text.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/core/element.hpp>
#include <pith/core/shape.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace pith::inline v0::runtime {

/// A codec in the library pith::runtime for gradients with elements of type In, which is float or bfloat16. `parse`
/// constructs a codec. Copies are the same codec.
///
///   requires    linking with pith::runtime
///   properties  payloads, states and means equal those of pith::any_codec with the same name
///   errors      those of pith::any_codec
template <class In>
class any_codec {
 public:
  struct compiled;

  explicit any_codec(std::shared_ptr<compiled const> of) : compiled_(std::move(of)) {}

  std::string name() const;
  std::size_t payload_bytes(shape const& dims) const;
  capabilities capabilities_for(shape const& dims) const;
  bool has_rate() const;
  /// Returns the same codec at another rate. Throws std::invalid_argument if the codec has no rate.
  any_codec at(double rate) const;

  compiled const& get() const { return *compiled_; }

 private:
  std::shared_ptr<compiled const> compiled_;
};

/// Constructs the codec that a text describes, as pith::parse does. All methods of the registry are compiled.
///
///   errors      std::invalid_argument; the message contains the expected syntax and the text found instead
template <class In>
any_codec<In> parse(std::string_view text);

}  // namespace pith::inline v0::runtime
