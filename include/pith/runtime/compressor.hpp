// pith/runtime/compressor.hpp — a compiled codec for one tensor, together with its state, payload and workspace.
#pragma once

#include <pith/core/draws.hpp>
#include <pith/core/shape.hpp>
#include <pith/core/span.hpp>
#include <pith/runtime/any_codec.hpp>
#include <pith/runtime/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace runtime {

/// A compiled codec with the state, payload and workspace for one tensor on one rank, like pith::compressor.
///
///     auto c = pith::runtime::compressor<float>(pith::runtime::parse<float>("ef(top_k(0.01))"), pith::vector(n));
///     send(c.compress(gradient), c.step());
///     c.decompress(received, gradient, from_rank, step);   // `step` is the step() of the sender
///
///   owns        all memory, which the constructor allocates. The type is move-only
///   complexity  one call into the library per member function call; compress and decompress do not allocate
///   errors      those of pith::compressor
///   requires    In is float or bfloat16; only one thread at a time may use the object
template <class In>
class compressor {
 public:
  compressor(executor const& exec, any_codec<In> const& codec, shape const& dims, tensor_id const& owner = {});
  /// Uses the calling thread.
  compressor(any_codec<In> const& codec, shape const& dims, tensor_id const& owner = {})
      : compressor(executor(), codec, dims, owner) {}
  compressor(compressor&&) noexcept;
  compressor& operator=(compressor&&) noexcept;
  ~compressor();

  /// Begins the next step and encodes `x`. The returned payload is valid until the next call.
  span<std::byte const> compress(span<In const> x);
  /// Decodes the payload that rank `from` compressed in its step number `step` into `x`.
  void decompress(span<std::byte const> payload, span<In> x, std::uint16_t from, std::uint64_t step);
  /// Decodes a payload of rank `from` into `x`. The payload must be of this compressor's current step.
  void decompress(span<std::byte const> payload, span<In> x, std::uint16_t from);
  /// Decodes a payload that this rank compressed.
  void decompress(span<std::byte const> payload, span<In> x);

  /// The payload of the last step.
  span<std::byte const> payload() const;
  /// The number of the current step: the number of calls of compress(), including those before an import of a state.
  std::uint64_t step() const;

  /// Serialises the state, in the format of docs/state_format.md.
  std::vector<std::byte> export_state();
  /// Restores a state that export_state of this class or of pith::compressor returned, for the same codec, shape and
  /// tensor id. Throws std::invalid_argument, before any change, if the bytes are not such a state.
  void import_state(span<std::byte const> bytes);

  shape const& dims() const;

 private:
  struct compiled;
  std::unique_ptr<compiled> compiled_;
};

}}}  // namespace pith::PITH_ABI::runtime
