// pith/sparsify/elias_fano.hpp — ascending indices in nearly as few bits as a set of indices needs.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/core/error.hpp>
#include <pith/sparsify/detail/index_fields.hpp>
#include <pith/sparsify/detail/prefix_sums.hpp>
#include <pith/sparsify/packed_indices.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

PITH_HD inline std::uint32_t count_bits(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__popc(word));
#else
  return static_cast<std::uint32_t>(__builtin_popcount(word));
#endif
}
PITH_HD inline std::uint32_t lowest_bit(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__ffs(word)) - 1;
#else
  return static_cast<std::uint32_t>(__builtin_ctz(word));
#endif
}

/// The bitmap of the high parts of k ascending indices: bit (index_j >> low) + j is set for each j. The bitmap begins
/// at bit `begin` of the bytes, after the fields. It is read and written in spans of words. The first word may begin
/// with bits of the last field.
template <class Byte>
struct high_parts {
  index_words<Byte> words;
  std::uint64_t begin, k;
  unsigned low;
  unsigned words_per_span = 8;

  PITH_HD std::uint64_t first_word(std::uint64_t span) const { return begin / 32 + span * words_per_span; }
  PITH_HD std::uint64_t end_word(std::uint64_t span) const {
    auto const all = (words.size + 3) / 4, end = first_word(span) + words_per_span;
    return end < all ? end : all;
  }
  /// The bits of a word that belong to the last fields.
  PITH_HD std::uint32_t field_bits(std::uint64_t w) const {
    return w == begin / 32 ? low_mask(static_cast<unsigned>(begin % 32)) : 0;
  }
  PITH_HD std::uint32_t get(std::uint64_t w) const { return words.get(w) & ~field_bits(w); }

  /// The number of set bits in a span.
  PITH_HD std::uint32_t count(std::uint64_t span) const {
    std::uint32_t set = 0;
    for (auto w = first_word(span); w < end_word(span); ++w) set += count_bits(get(w));
    return set;
  }
};

/// Writes one span of the bitmap.
struct write_span {
  high_parts<std::uint8_t> to;
  std::uint32_t const* indices;

  PITH_HD void operator()(std::uint64_t span) const {
    auto j = first_from(32 * to.first_word(span));
    for (auto w = to.first_word(span); w < to.end_word(span); ++w) {
      auto const fields = to.field_bits(w);
      auto word = fields == 0 ? 0u : to.words.get(w) & fields;
      for (; j < to.k && place(j) < 32 * (w + 1); ++j) word |= std::uint32_t{1} << (place(j) - 32 * w);
      to.words.put(w, word);
    }
  }

 private:
  PITH_HD std::uint64_t place(std::uint64_t j) const { return to.begin + (std::uint64_t{indices[j]} >> to.low) + j; }

  /// The first entry whose place is at least `least`. Places ascend.
  PITH_HD std::uint64_t first_from(std::uint64_t least) const {
    std::uint64_t begin = 0, end = to.k;
    while (begin < end) {
      auto const middle = begin + (end - begin) / 2;
      if (place(middle) < least) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }
};

struct count_span {
  high_parts<std::uint8_t const> from;
  std::uint32_t* counts;

  PITH_HD void operator()(std::uint64_t span) const { counts[span] = from.count(span); }
};

/// Sets before[i] to the number of set bits before span i, where count(i) is the number in span i, and before[spans] to
/// the number of all set bits.
template <team Team, class Count>
PITH_HD void place_bits(Team const& team, prefix_memory& fast, std::uint32_t spans, Count const& count,
                        std::uint32_t* before) {
  auto const all = prefix_sums(team, fast, spans, count,
                               [=](std::uint32_t i, std::uint32_t sum, std::uint32_t) { before[i] = sum; });
  team.for_each(1u, [=](std::uint32_t) { before[spans] = all; });
}

/// Replaces the counts of the spans by the numbers of set bits before each span, and appends the number of all set
/// bits.
struct place_spans {
  using memory = prefix_memory;

  std::uint32_t* counts;
  std::uint32_t spans;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto* const own = counts;
    place_bits(
        team, fast, spans, [=](std::uint32_t i) { return own[i]; }, own);
  }
};

/// Writes the indices whose bits are in a span. An index above `last` becomes `last`. An invalid bitmap may have fewer
/// than k bits. Then the spans also set the other indices to `last`.
struct read_span {
  high_parts<std::uint8_t const> from;
  std::uint32_t const* before;  ///< the number of set bits before each span
  std::uint32_t const* total;   ///< the number of all set bits
  std::uint32_t last;
  std::uint32_t* indices;

  PITH_HD void operator()(std::uint64_t span) const {
    auto const coded = from;  // a local copy stays in registers when the loop writes indices
    auto const low = coded.low;
    std::uint64_t const most = last;
    auto* const to = indices;
    auto j = std::uint64_t{before[span]};
    for (auto w = coded.first_word(span); w < coded.end_word(span); ++w) {
      auto const place = 32 * w - coded.begin;
      for (auto word = coded.get(w); word != 0 && j < coded.k; word &= word - 1, ++j) {
        auto const index = (place + lowest_bit(word) - j) << low | coded.words.field(j * low, low);
        to[j] = static_cast<std::uint32_t>(index < most ? index : most);
      }
    }
    // The bitmap has more than k bits, so as many entries per span as a span has bits are all entries.
    auto const begin = span * 32 * coded.words_per_span, end = begin + 32 * coded.words_per_span;
    for (auto i = begin < *total ? *total : begin; i < end && i < coded.k; ++i) to[i] = last;
  }
};

/// Decodes a short bitmap in one block. Each span of this bitmap has one word.
struct read_in_block {
  using memory = prefix_memory;

  high_parts<std::uint8_t const> from;
  std::uint32_t spans;
  std::uint32_t* before;
  std::uint32_t last;
  std::uint32_t* indices;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto const coded = from;
    place_bits(
        team, fast, spans, [=](std::uint32_t i) { return coded.count(i); }, before);
    auto const read = read_span{coded, before, before + spans, last, indices};
    team.for_each(spans, [=](std::uint32_t span) { read(span); });
  }
};

}  // namespace detail

/// The index coder of Elias and Fano: the low bits of k ascending indices in fields of equal width, and the high bits
/// as a bitmap. Bit (index_j >> width) + j of the bitmap is set for each index_j. The width is the smallest one that
/// minimizes the number of all bits, among the widths whose bitmap has at most 2^32 - 8 bits. At 1 % of 2^20 elements,
/// an index takes 8.6 bits instead of 20.
///
///   emits       k fields of `width` bits, then a bitmap of k + ((n - 1) >> width) + 1 bits
///   requires    k <= 2^32 - 9 (std::invalid_argument)
///   complexity  a few operations per index and per 32 bits of the bitmap; scratch memory for one count per 256 bits of
///               the bitmap; for a short bitmap, one count per 32 bits
///   reference   Elias, Efficient Storage and Retrieval by Content and Address of Static Files, JACM 1974; Fano, On the
///               Number of Bits Required to Implement an Associative Memory, MIT 1971
class elias_fano {
 public:
  std::string name() const { return "elias_fano"; }

  std::size_t side_bytes(std::uint64_t n, std::uint64_t k) const {
    detail::require(k < longest_bitmap, "elias_fano: k must be at most 2^32 - 9, got ", k, ": split the tensor");
    return static_cast<std::size_t>((k * width(n, k) + bitmap_bits(n, k) + 7) / 8);
  }

  /// The bitmap has at most 3 k + 1 bits. This bound grows with k, unlike the number of spans.
  template <executor E>
  std::size_t scratch_bytes(E const&, std::uint64_t, std::uint64_t k) const {
    auto const words = (31 + 3 * k + 2 + 31) / 32;
    auto const counts = std::max(std::min(words, longest_in_block<E>), (words + 7) / 8);
    return k == 0 ? 0 : scratch_for<std::uint32_t>(counts + 1);
  }

  template <executor E>
  void encode(E const& exec, std::uint64_t n, std::uint64_t k, std::uint32_t* indices, span_on<E, std::byte> side,
              workspace_on<E>&) const {
    auto* const bytes = side_as<std::uint8_t>(side);
    detail::pack_fields(exec, indices, k, width(n, k), bytes);
    auto const high = high_parts(bytes, n, k);
    exec.for_each_index(spans(n, k, high.words_per_span), detail::write_span{high, indices});
  }
  template <executor E>
  void decode(E const& exec, std::uint64_t n, std::uint64_t k, span_on<E, std::byte const> side, std::uint32_t* indices,
              workspace_on<E>& ws) const {
    if (k == 0) return;
    auto const scope = ws.mark();
    auto high = high_parts(side_as<std::uint8_t>(side), n, k);
    auto const is_short = spans(n, k, 1) <= longest_in_block<E>;
    if (is_short) high.words_per_span = 1;
    auto const count = static_cast<std::uint32_t>(spans(n, k, high.words_per_span));
    auto* const before = ws.template take<std::uint32_t>(count + std::uint64_t{1}).data;
    auto const last = static_cast<std::uint32_t>(n - 1);
    if (is_short) return exec.for_each_block(1, detail::read_in_block{high, count, before, last, indices});
    exec.for_each_index(count, detail::count_span{high, before});
    exec.for_each_block(1, detail::place_spans{before, count});
    exec.for_each_index(count, detail::read_span{high, before, before + count, last, indices});
  }

 private:
  /// The longest bitmap in words that one block reads. On a device, one launch is faster than three. On a host, longer
  /// spans are faster.
  template <class E>
  static constexpr std::uint64_t longest_in_block = detail::host_executor<E> ? 16 : 4096;

  /// The largest number of bits of a bitmap. Numbers of set bits are 32-bit integers, also if a bitmap is followed by
  /// seven invalid bits.
  static constexpr std::uint64_t longest_bitmap = 0xfffffff8u;

  static constexpr std::uint64_t bitmap_bits(std::uint64_t n, std::uint64_t k, unsigned width) {
    return k + ((n - 1) >> width) + 1;
  }
  static constexpr std::uint64_t bitmap_bits(std::uint64_t n, std::uint64_t k) {
    return k == 0 ? 0 : bitmap_bits(n, k, width(n, k));
  }
  /// The number of spans. The first span may begin with up to 31 bits of the last field.
  static constexpr std::uint64_t spans(std::uint64_t n, std::uint64_t k, std::uint64_t words_per_span) {
    auto const bits = 32 * words_per_span;
    return k == 0 ? 0 : (k * width(n, k) % 32 + bitmap_bits(n, k) + bits - 1) / bits;
  }

  /// One more bit of width adds k bits to the fields. It removes (n - 1 >> width) - (n - 1 >> width + 1) bits from the
  /// bitmap, which never grows with the width. So the first width at which this is at most k is the best one.
  static constexpr unsigned width(std::uint64_t n, std::uint64_t k) {
    if (k == 0) return 0;
    unsigned low = 0;
    while (((n - 1) >> low) - ((n - 1) >> (low + 1)) > k) ++low;
    while (low < 32 && bitmap_bits(n, k, low) > longest_bitmap) ++low;
    return low;
  }

  template <class Byte>
  detail::high_parts<Byte> high_parts(Byte* bytes, std::uint64_t n, std::uint64_t k) const {
    return {{bytes, side_bytes(n, k)}, k * width(n, k), k, width(n, k)};
  }
};

static_assert(detail::index_coder<elias_fano>);

}}  // namespace pith::PITH_ABI
