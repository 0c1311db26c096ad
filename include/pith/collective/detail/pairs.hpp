// pith/collective/detail/pairs.hpp — pieces of (value, index) pairs, which are the messages of sparse exchanges.
#pragma once

#include <pith/codec/detail/entries.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pith { inline namespace PITH_ABI { namespace detail {

constexpr std::size_t pair_values_bytes(std::size_t value_bytes, std::uint64_t n) {
  return align_up(n * value_bytes, section_alignment);
}

/// The size in bytes of a piece with n values, n indices and `words` additional 32-bit words.
template <class In>
constexpr std::size_t pairs_bytes(std::uint64_t n, std::uint64_t words = 0) {
  return align_up(pair_values_bytes(sizeof(In), n) + (n + words) * sizeof(std::uint32_t), section_alignment);
}

/// Pieces with n pairs each. The pieces are `stride` bytes apart. A piece contains n values, then n indices, then
/// additional 32-bit words.
template <class In>
class pair_pieces {
 public:
  using byte = std::conditional_t<std::is_const_v<In>, std::byte const, std::byte>;
  using index = std::conditional_t<std::is_const_v<In>, std::uint32_t const, std::uint32_t>;

  pair_pieces(byte* bytes, std::uint64_t n, std::size_t stride = 0)
      : bytes_(bytes), n_(n), stride_(stride), behind_(pair_values_bytes(sizeof(In), n)) {}

  PITH_HD std::uint64_t size() const { return n_; }
  PITH_HD In* values(std::uint64_t piece) const { return reinterpret_cast<In*>(bytes_ + piece * stride_); }
  PITH_HD index* indices(std::uint64_t piece) const {
    return reinterpret_cast<index*>(bytes_ + piece * stride_ + behind_);
  }
  PITH_HD index* words(std::uint64_t piece) const { return indices(piece) + n_; }

 private:
  byte* bytes_;
  std::uint64_t n_;
  std::size_t stride_, behind_;
};

template <class In>
struct pairs {
  In* values;
  typename pair_pieces<In>::index* indices;
};

/// Sets x[i] to values[j], where i = indices[picked[j]]. Skips padding, for which i = no_index.
template <class In>
struct place_pairs {
  accum<In> const* values;
  std::uint32_t const* picked;
  std::uint32_t const* indices;
  In* x;
  PITH_HD void operator()(std::uint64_t j) const {
    auto const i = indices[picked[j]];
    if (i != no_index) x[i] = element_cast<In>(values[j]);
  }
};

/// For each index i of an entry that this rank sent, sets sent[i] to p[i] if mean[i] is nonzero. A nonzero mean[i]
/// shows that entry i contributed to the mean.
template <class A>
struct place_arrived {
  std::uint32_t const* indices;
  A const* p;
  A const* mean;
  A* sent;
  PITH_HD void operator()(std::uint64_t j) const {
    auto const i = indices[j];
    if (i != no_index && mean[i] != 0) sent[i] = p[i];
  }
};

}}}  // namespace pith::PITH_ABI::detail
