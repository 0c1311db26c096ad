// pith/runtime/any_codec.hpp — a compiled codec, constructed from its text.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/core/element.hpp>
#include <pith/core/shape.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace runtime {

/// A codec in the library pith::runtime for gradients with elements of type In. `parse` constructs a codec. All copies
/// share one immutable codec.
///
///   requires    In is float or bfloat16; the program links with pith::runtime. A moved-from codec must not be used
///   properties  payloads, states and means equal those of pith::any_codec with the same name
///   errors      those of pith::any_codec
template <class In>
class any_codec {
  static_assert(std::is_same_v<In, float> || std::is_same_v<In, bfloat16>,
                "pith::runtime is compiled for float and bfloat16; pith::parse serves other elements");
#if defined(PITH_RUNTIME_WITHOUT_BFLOAT16)
  static_assert(std::is_same_v<In, float>,
                "this pith::runtime is compiled for float only: add bfloat16 to PITH_RUNTIME_ELEMENTS");
#endif

 public:
  std::string name() const;
  std::size_t payload_bytes(shape const& dims) const;
  capabilities capabilities_for(shape const& dims) const;
  bool has_rate() const;
  /// Returns the same codec at another rate. Throws std::invalid_argument if the codec has no rate.
  any_codec at(double rate) const;

  /// Used only by the source files of pith::runtime.
  struct compiled;
  explicit any_codec(std::shared_ptr<compiled const> of) : compiled_(std::move(of)) {}
  compiled const& get() const { return *compiled_; }

 private:
  std::shared_ptr<compiled const> compiled_;
};

/// Constructs the codec that a text describes, as pith::parse does. A text may name any method of the registry.
///
///   errors      std::invalid_argument; the message contains the expected syntax and the text found instead
template <class In>
any_codec<In> parse(std::string_view text);

}}}  // namespace pith::PITH_ABI::runtime
