// pith/quantize/majority.hpp — majority votes over many ranks, counted for 64 elements at once.
#pragma once

#include <pith/core/detail/pack.hpp>
#include <pith/core/element.hpp>
#include <pith/core/team.hpp>

#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// The result if the numbers of positive and negative votes are equal.
enum class ties : std::uint8_t { positive, zero };

namespace detail {

/// 64 counters. `add(word)` increments counter i if bit i of the word is 1. Bit k of counter i is stored as bit i of
/// planes[k].
class bit_counts {
 public:
  /// Makes counters for numbers up to `most` < 2^17.
  PITH_HD explicit bit_counts(std::uint32_t most) {
    for (used_ = 0; most >> used_ != 0; ++used_) planes_[used_] = 0;
  }
  PITH_HD void add(std::uint64_t word) {
    for (int k = 0; k < used_; ++k) {
      auto const carry = planes_[k] & word;
      planes_[k] ^= word;
      word = carry;
    }
  }

  struct comparison {
    std::uint64_t greater, equal;
  };
  /// Returns two bit masks: the counters greater than `count`, and the counters equal to `count`.
  PITH_HD comparison against(std::uint32_t count) const {
    auto found = comparison{0, ~std::uint64_t{0}};
    for (int k = used_ - 1; k >= 0; --k) {
      auto const bit = (count >> k & 1) != 0 ? ~std::uint64_t{0} : 0;
      found.greater |= found.equal & planes_[k] & ~bit;
      found.equal &= ~(planes_[k] ^ bit);
    }
    return found;
  }

 private:
  std::uint64_t planes_[17];
  int used_;
};

/// Sets x to +1 where fewer than half of the ranks have bit 1, and to -1 where more than half have bit 1. `even`
/// selects the result of a tie.
template <class In, std::uint32_t Span>
struct count_votes {
  static constexpr std::uint32_t word = 64;
  struct memory {
    fast_array<std::uint64_t, Span / word> negative, tied;
    fast_array<std::uint8_t, Span> against, even;
  };

  std::uint8_t const* bytes;
  std::size_t stride;
  unsigned ranks;
  ties even;
  In* x;
  std::uint64_t n;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const first = block * Span;
    auto const count = block_size(n, first, Span);
    if constexpr (Team::by_octets) {
      count_octets(team, first, count);
    } else {
      count_words(team, fast, first, count);
    }
  }

 private:
  /// Each thread counts the votes for one octet (8 elements).
  template <class Team>
  PITH_HD void count_octets(Team const& team, std::uint64_t first, std::uint32_t count) const {
    auto const self = *this;
    auto* const to = x + first;
    team.for_each_run(count, is_vector_aligned(to), [=](std::uint32_t i, auto const& run) {
      std::uint32_t negative[octet] = {};
      for (unsigned rank = 0; rank < self.ranks; ++rank) {
        auto const votes = self.bytes[rank * self.stride + (first + i) / octet];
        for (std::uint32_t lane = 0; lane < octet; ++lane) negative[lane] += votes >> lane & 1u;
      }
      run.write(to + i, [&](std::uint32_t lane) { return element_cast<In>(self.winner(negative[lane])); });
    });
  }
  PITH_HD accum<In> winner(std::uint32_t negative) const {
    if (2 * negative == ranks) return even == ties::zero ? 0 : 1;
    return 2 * negative > ranks ? -1 : 1;
  }

  template <class Team>
  PITH_HD void count_words(Team const& team, memory& fast, std::uint64_t first, std::uint32_t count) const {
    auto const self = *this;
    auto* const negative = fast.negative.data();
    auto* const tied = fast.tied.data();
    team.for_each((count + word - 1) / word, [=](std::uint32_t w) {
      auto const found = self.poll(first + w * word).against(self.ranks / 2);
      negative[w] = found.greater;
      tied[w] = self.even == ties::zero && self.ranks % 2 == 0 ? found.equal : 0;
    });
    unpack_symbols<1>(team, reinterpret_cast<std::uint8_t const*>(negative), count, fast.against.data());
    unpack_symbols<1>(team, reinterpret_cast<std::uint8_t const*>(tied), count, fast.even.data());
    auto const* const against = fast.against.data();
    auto const* const are_even = fast.even.data();
    auto* const to = x + first;
    team.for_each(count, [=](std::uint32_t i) {
      to[i] = element_cast<In>(static_cast<accum<In>>((1 - 2 * against[i]) * (1 - are_even[i])));
    });
  }

  /// Counts the negative votes for each of the elements first .. first + 63, or up to the tensor's end.
  PITH_HD bit_counts poll(std::uint64_t first) const {
    auto counts = bit_counts(ranks);
    auto const size = n - first < word ? (n - first + 7) / 8 : word / 8;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      std::uint64_t votes = 0;
      __builtin_memcpy(&votes, bytes + rank * stride + first / 8, size);
      counts.add(votes);
    }
    return counts;
  }
};

}  // namespace detail
}}  // namespace pith::PITH_ABI
