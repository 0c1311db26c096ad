// pith/sparsify/elias_fano.hpp — ascending indices in nearly as few bits as a set of indices needs.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/core/error.hpp>
#include <pith/sparsify/detail/index_fields.hpp>
#include <pith/sparsify/detail/prefix_sums.hpp>
#include <pith/sparsify/packed_indices.hpp>

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

/// The bitmap of the high parts of k ascending indices: bit (index_j >> low) + j is set for each j. The bitmap begins at
/// bit `begin` of the bytes, after the fields. It is read and written in spans of eight words; its first word may begin
/// with bits of the last field.
template <class Byte>
struct high_parts {
  static constexpr std::uint64_t words_per_span = 8;

  index_words<Byte> words;
  std::uint64_t begin, k;
  unsigned low;

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
  PITH_HD std::uint64_t place(std::uint64_t j) const { return to.begin + (indices[j] >> to.low) + j; }

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

  PITH_HD void operator()(std::uint64_t span) const {
    std::uint32_t count = 0;
    for (auto w = from.first_word(span); w < from.end_word(span); ++w) count += count_bits(from.get(w));
    counts[span] = count;
  }
};

/// Replaces the counts of the spans by the numbers of set bits before each span, and appends the number of all set bits.
struct place_spans {
  using memory = prefix_memory;

  std::uint32_t* counts;
  std::uint32_t spans;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto* const to = counts;
    auto const all = prefix_sums(
        team, fast, spans, [=](std::uint32_t i) { return to[i]; },
        [=](std::uint32_t i, std::uint32_t before, std::uint32_t) { to[i] = before; });
    auto* const total = counts + spans;
    team.for_each(1u, [=](std::uint32_t) { *total = all; });
  }
};

/// Adds the high parts of a span's entries to the low parts in `indices`. An index above `last` becomes `last`. An
/// invalid bitmap may have fewer than k bits. Then the spans also set the other entries to `last`.
struct read_span {
  high_parts<std::uint8_t const> from;
  std::uint32_t const* before;
  std::uint32_t const* total;
  std::uint32_t last;
  std::uint32_t* indices;

  PITH_HD void operator()(std::uint64_t span) const {
    std::uint64_t j = before[span];
    for (auto w = from.first_word(span); w < from.end_word(span); ++w) {
      for (auto word = from.get(w); word != 0 && j < from.k; word &= word - 1, ++j) {
        auto const index = (32 * w + lowest_bit(word) - from.begin - j) << from.low | indices[j];
        indices[j] = index < last ? static_cast<std::uint32_t>(index) : last;
      }
    }
    // The bitmap has more than k bits, so as many entries per span as a span has bits are all entries.
    auto const begin = span * 32 * from.words_per_span, end = begin + 32 * from.words_per_span;
    for (auto i = begin < *total ? *total : begin; i < end && i < from.k; ++i) indices[i] = last;
  }
};

}  // namespace detail

/// The index coder of Elias and Fano: the low bits of k ascending indices in fields of equal width, and the high bits
/// as a bitmap. Bit (index_j >> width) + j of the bitmap is set for each index_j. The width is the smallest one that
/// needs the fewest bits. At 1 % of 2^20 elements, an index takes 8.6 bits instead of 20.
///
///   emits       k fields of `width` bits, then a bitmap of k + ((n - 1) >> width) + 1 bits
///   requires    a bitmap of less than 2^32 bits (std::invalid_argument), so k < 2^32 / 3 or a smaller n
///   complexity  a few operations per index and per 32 bits of the bitmap; scratch memory for one count per 256 bits
///   reference   Elias, Efficient Storage and Retrieval by Content and Address of Static Files, JACM 1974; Fano, On the
///               Number of Bits Required to Implement an Associative Memory, MIT 1971
class elias_fano {
 public:
  std::string name() const { return "elias_fano"; }

  std::size_t side_bytes(std::uint64_t n, std::uint64_t k) const {
    detail::require(bitmap_bits(n, k) <= 0xffffffffu, "elias_fano: the bitmap must have at most 2^32 - 1 bits, got ",
                    bitmap_bits(n, k), ": split the tensor, or use packed_indices");
    return static_cast<std::size_t>((k * width(n, k) + bitmap_bits(n, k) + 7) / 8);
  }

  /// The bitmap has at most 3 k bits. This bound grows with k, unlike the number of spans.
  template <executor E>
  std::size_t scratch_bytes(E const&, std::uint64_t, std::uint64_t k) const {
    return k == 0 ? 0 : scratch_for<std::uint32_t>((31 + 3 * k + 2 + 255) / 256 + 1);
  }

  template <executor E>
  void encode(E const& exec, std::uint64_t n, std::uint64_t k, std::uint32_t* indices, span_on<E, std::byte> side,
              workspace_on<E>&) const {
    auto* const bytes = side_as<std::uint8_t>(side);
    detail::pack_fields(exec, indices, k, width(n, k), bytes);
    exec.for_each_index(spans(n, k), detail::write_span{high_parts(bytes, n, k), indices});
  }
  template <executor E>
  void decode(E const& exec, std::uint64_t n, std::uint64_t k, span_on<E, std::byte const> side, std::uint32_t* indices,
              workspace_on<E>& ws) const {
    if (k == 0) return;
    auto const scope = ws.mark();
    auto const count = spans(n, k);
    auto* const counts = ws.template take<std::uint32_t>(count + 1).data;
    auto const* const bytes = side_as<std::uint8_t>(side);
    auto const high = high_parts(bytes, n, k);
    detail::unpack_fields(exec, bytes, k, high.low, detail::low_mask(high.low), indices);
    exec.for_each_index(count, detail::count_span{high, counts});
    exec.for_each_block(1, detail::place_spans{counts, static_cast<std::uint32_t>(count)});
    auto const last = static_cast<std::uint32_t>(n - 1);
    exec.for_each_index(count, detail::read_span{high, counts, counts + count, last, indices});
  }

 private:
  static constexpr std::uint64_t bitmap_bits(std::uint64_t n, std::uint64_t k) {
    return k == 0 ? 0 : k + ((n - 1) >> width(n, k)) + 1;
  }
  /// The number of spans. The first span may begin with up to 31 bits of the last field.
  static constexpr std::uint64_t spans(std::uint64_t n, std::uint64_t k) {
    return k == 0 ? 0 : (k * width(n, k) % 32 + bitmap_bits(n, k) + 255) / 256;
  }

  /// One more bit of width adds k bits to the fields. It removes (n - 1 >> width) - (n - 1 >> width + 1) bits from the
  /// bitmap, which never grows with the width. So the first width at which this is at most k is the best one.
  static constexpr unsigned width(std::uint64_t n, std::uint64_t k) {
    if (k == 0) return 0;
    unsigned low = 0;
    while (((n - 1) >> low) - ((n - 1) >> (low + 1)) > k) ++low;
    return low;
  }

  template <class Byte>
  detail::high_parts<Byte> high_parts(Byte* bytes, std::uint64_t n, std::uint64_t k) const {
    return {{bytes, side_bytes(n, k)}, k * width(n, k), k, width(n, k)};
  }
};

static_assert(detail::index_coder<elias_fano>);

}}  // namespace pith::PITH_ABI
