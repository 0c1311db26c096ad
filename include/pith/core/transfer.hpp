// pith/core/transfer.hpp — the transfer of one round of an exchange, and the data that a rank receives.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/error.hpp>
#include <pith/core/executor.hpp>
#include <pith/core/span.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace pith { inline namespace PITH_ABI {

/// The operation that transfers the buffers of a round.
enum class transport : std::uint8_t {
  all_gather,       ///< every rank receives all ranks' buffers, in rank order
  all_to_all,       ///< every rank sends one piece to each rank, and receives one piece from each rank, in rank order
  all_reduce_sum,   ///< every rank receives the elementwise sum of all buffers
  all_reduce_max,   ///< every rank receives the elementwise maximum of all buffers
  all_reduce_mean,  ///< every rank receives the elementwise mean of all buffers, which are added in float and rounded
                    ///< once. The elements are half or bfloat16. An exchange runs an all_to_all, then an all_gather
  pairwise,         ///< ranks r and r xor `distance` exchange their buffers; a rank without a partner is idle
  ring_shift,       ///< rank r sends to rank r + `distance`, modulo the number of ranks, and receives from
                    ///< r - `distance`
};

/// The element type of a round's buffer, which a communicator needs for sums.
enum class element_kind : std::uint8_t { bytes, f32, f64, f16, bf16, i32, i8 };

template <class T>
constexpr element_kind kind_of() {
  if constexpr (std::same_as<T, float>) return element_kind::f32;
  if constexpr (std::same_as<T, double>) return element_kind::f64;
  if constexpr (std::same_as<T, half>) return element_kind::f16;
  if constexpr (std::same_as<T, bfloat16>) return element_kind::bf16;
  if constexpr (std::same_as<T, std::int32_t>) return element_kind::i32;
  if constexpr (std::same_as<T, std::int8_t>) return element_kind::i8;
  return element_kind::bytes;
}

constexpr std::size_t kind_bytes(element_kind kind) {
  switch (kind) {
    case element_kind::f64: return 8;
    case element_kind::f32:
    case element_kind::i32: return 4;
    case element_kind::f16:
    case element_kind::bf16: return 2;
    default: return 1;
  }
}

/// Whether the elements have 16 bits. Such elements are added in float.
constexpr bool is_narrow(element_kind kind) { return kind == element_kind::f16 || kind == element_kind::bf16; }

namespace detail {

/// The name of a kind of gradients.
constexpr char const* name_of(element_kind kind) {
  switch (kind) {
    case element_kind::f32: return element_name<float>();
    case element_kind::f64: return element_name<double>();
    case element_kind::f16: return element_name<half>();
    case element_kind::bf16: return element_name<bfloat16>();
    default: return "unknown";
  }
}

/// Calls f with a span of the data, whose elements have the type of `kind`.
template <memory_space Space, class F>
auto with_elements(element_kind kind, void* data, std::size_t n, F const& f) {
  switch (kind) {
    case element_kind::f32: return f(span<float, Space>(static_cast<float*>(data), n));
    case element_kind::f64: return f(span<double, Space>(static_cast<double*>(data), n));
    case element_kind::f16: return f(span<half, Space>(static_cast<half*>(data), n));
    case element_kind::bf16: return f(span<bfloat16, Space>(static_cast<bfloat16*>(data), n));
    case element_kind::i32: return f(span<std::int32_t, Space>(static_cast<std::int32_t*>(data), n));
    case element_kind::i8: return f(span<std::int8_t, Space>(static_cast<std::int8_t*>(data), n));
    case element_kind::bytes: break;
  }
  throw std::logic_error(
      sentence("reduction: elements must be float, double, half, bfloat16, int32 or int8, got bytes"));
}

}  // namespace detail

/// The ranks among which a round transfers data: all ranks, or groups of `size` ranks whose numbers are `stride` apart.
/// If the ranks are numbered along the rows of a matrix, {columns, 1} describes the rows, and {rows, columns} describes
/// the columns.
struct subgroup {
  std::uint32_t size = 0;  ///< 0 means all ranks
  std::uint32_t stride = 1;

  constexpr bool is_all() const { return size == 0; }
  constexpr unsigned ranks(unsigned all) const { return is_all() ? all : size; }
  constexpr unsigned color(unsigned rank) const {
    return is_all() ? 0 : rank / (size * stride) * stride + rank % stride;
  }
  friend constexpr bool operator==(subgroup const&, subgroup const&) = default;
};

/// The transfer of one round: each rank sends `count` elements of one kind. In an all_to_all, each rank sends `count`
/// elements, a multiple of 8 bytes, to each rank. Only `pairwise` and `ring_shift` use `distance`. Ranks are numbered within
/// their subgroup.
struct transfer {
  transport how = transport::all_gather;
  element_kind kind = element_kind::bytes;
  std::uint64_t count = 0;
  std::uint32_t distance = 0;
  subgroup among = {};

  constexpr std::size_t bytes() const { return count * kind_bytes(kind); }
  friend constexpr bool operator==(transfer const&, transfer const&) = default;
};

/// The data that a rank receives in a round. Depending on the operation, these data are a sum, a maximum, another
/// rank's buffer, or one buffer per rank. Buffers of different ranks are `stride` bytes apart.
template <detail::memory_space Space = host_space>
struct received {
  span<std::byte const, Space> bytes;
  std::size_t stride = 0;

  constexpr span<std::byte const, Space> from(unsigned rank, std::size_t size) const {
    return bytes.subspan(rank * stride, size);
  }
};
template <class E>
using received_on = received<space_of<E>>;

}}  // namespace pith::PITH_ABI
