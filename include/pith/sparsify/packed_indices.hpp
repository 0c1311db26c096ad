// pith/sparsify/packed_indices.hpp — indices below n, packed at a fixed width of ceil(log2 n) bits.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/sparsify/detail/index_fields.hpp>

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// An index coder, a parameter of sparsifiers, writes k ascending indices below n to side information and reads them
/// back. Decoded indices are below n even if the side information is corrupt.
template <class C, class E = archetype>
concept index_coder = std::copyable<C> &&
    requires(C const& c, E const& exec, std::uint64_t n, std::uint64_t k, std::uint32_t* indices,
             span_on<E, std::byte> side, span_on<E, std::byte const> coded, workspace_on<E>& ws) {
  { c.name() } -> std::convertible_to<std::string>;
  { c.side_bytes(n, k) } -> std::same_as<std::size_t>;
  { c.scratch_bytes(exec, n, k) } -> std::same_as<std::size_t>;
  { c.encode(exec, n, k, indices, side, ws) } -> std::same_as<void>;
  { c.decode(exec, n, k, coded, indices, ws) } -> std::same_as<void>;
};

}  // namespace detail

/// An index coder of fixed width: ceil(log2 n) bits per index, least significant bit first.
class packed_indices {
 public:
  std::string name() const { return "packed_indices"; }

  constexpr std::size_t side_bytes(std::uint64_t n, std::uint64_t k) const {
    return static_cast<std::size_t>(detail::field_bytes(k, width(n)));
  }

  template <executor E>
  std::size_t scratch_bytes(E const&, std::uint64_t, std::uint64_t) const {
    return 0;
  }

  template <executor E>
  void encode(E const& exec, std::uint64_t n, std::uint64_t k, std::uint32_t* indices, span_on<E, std::byte> side,
              workspace_on<E>&) const {
    detail::pack_fields(exec, indices, k, width(n), side_as<std::uint8_t>(side));
  }
  template <executor E>
  void decode(E const& exec, std::uint64_t n, std::uint64_t k, span_on<E, std::byte const> side, std::uint32_t* indices,
              workspace_on<E>&) const {
    detail::unpack_fields(exec, side_as<std::uint8_t>(side), k, width(n), static_cast<std::uint32_t>(n - 1), indices);
  }

 private:
  static constexpr unsigned width(std::uint64_t n) { return n < 2 ? 0 : static_cast<unsigned>(std::bit_width(n - 1)); }
};

static_assert(detail::index_coder<packed_indices>);

}}  // namespace pith::PITH_ABI
