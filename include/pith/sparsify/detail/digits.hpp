// pith/sparsify/detail/digits.hpp — magnitudes as digits, and the search for a digit of the k-th largest magnitude.
#pragma once

#include <pith/sparsify/detail/prefix_sums.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The number of bits in a digit, and the number of values that a digit can have.
inline constexpr unsigned digit_bits = 11;
inline constexpr std::uint32_t digit_bins = 1u << digit_bits;

/// The division of a magnitude's bit pattern (a key) into digits, most significant digit first.
template <class Key>
struct digits {
  static constexpr unsigned bits = 8 * sizeof(Key) - 1;
  static constexpr unsigned rounds = (bits + digit_bits - 1) / digit_bits;

  PITH_HD static constexpr unsigned shift(unsigned round) {
    return round + 1 == rounds ? 0 : bits - digit_bits * (round + 1);
  }
  PITH_HD static constexpr unsigned width(unsigned round) {
    return round + 1 == rounds ? bits - digit_bits * round : digit_bits;
  }
};

template <class A>
PITH_HD constexpr bits_of<A> infinite_bits() {
  return sizeof(A) == 8 ? static_cast<bits_of<A>>(0x7ff0000000000000u) : 0x7f800000u;
}

/// The position of one digit in a key. begins(key) is true if the key's earlier digits equal `prefix`.
template <class Key>
struct digit_of {
  Key prefix;
  unsigned shift, width;

  PITH_HD constexpr digit_of(unsigned round, Key before)
      : prefix(before), shift(digits<Key>::shift(round)), width(digits<Key>::width(round)) {}

  PITH_HD constexpr bool begins(Key key) const { return key >> shift >> width == prefix; }
  PITH_HD constexpr std::uint32_t operator()(Key key) const {
    return static_cast<std::uint32_t>(key >> shift) & ((1u << width) - 1);
  }
  PITH_HD constexpr Key followed_by(std::uint32_t digit) const { return prefix << width | digit; }
};

/// Counts the keys key(p[i]), i < count, that begin with the known digits: adds the number of keys with digit d to
/// bins[d]. A thread reads its values before it changes bins, because the compiler must assume that bins and values
/// overlap.
template <team Team, class T, class Key, class Of>
PITH_HD void count_digits_into(Team const& team, std::uint32_t* bins, digit_of<Key> digit, T const* p,
                               std::uint32_t count, Of const& key) {
  team.for_each_run(count, is_vector_aligned(p), [=, &team](std::uint32_t begin, auto const& run) {
    auto const own = run.read(p + begin);
    for (std::uint32_t i = 0; i < run.count(); ++i) {
      auto const bits = key(own[i]);
      team.count_into(bins, digit(bits), digit.begins(bits));
    }
  });
}

struct digit_memory {
  prefix_memory scan;
  std::uint32_t digit, rank;
};

/// Finds the digit of the key with rank `rank`, and the rank of this key among the keys with the same digit. The
/// largest key has rank 1. bins[d] is the number of keys with digit d. Stores the digit in fast.digit, and the rank
/// among the keys with this digit in fast.rank.
template <team Team>
PITH_HD void find_digit(Team const& team, digit_memory& fast, std::uint32_t const* bins, std::uint32_t rank) {
  auto* const result = &fast;
  auto const holds = [=](std::uint32_t before, std::uint32_t through) { return before < rank && rank <= through; };
  prefix_sums(
      team, fast.scan, digit_bins, [=](std::uint32_t i) { return bins[digit_bins - 1 - i]; }, holds,
      [=](std::uint32_t i, std::uint32_t before, std::uint32_t own) {
        if (!holds(before, before + own)) return;
        result->digit = digit_bins - 1 - i;
        result->rank = rank - before;
      });
}

}}}  // namespace pith::PITH_ABI::detail
