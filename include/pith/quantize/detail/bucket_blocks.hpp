// pith/quantize/detail/bucket_blocks.hpp — the elements and buckets that belong to a block of work.
#pragma once

#include <pith/core/detail/summation.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Elements [first, first + count) of a tensor. The first element belongs to bucket number `bucket`. Every `width`
/// elements share a scale.
struct bucket_run {
  std::uint64_t first, bucket;
  std::uint32_t count, width;
};

/// Splits a tensor with n elements into blocks of at most `span` elements. A block contains `per_block` whole buckets,
/// or, if per_block is 0, a part of one bucket. On a device, a division of 64-bit integers takes about a hundred
/// instructions, so `at` divides only if a tensor has several large buckets.
struct bucket_blocks {
  std::uint64_t n, bucket;
  std::uint32_t span, per_block;

  PITH_HD constexpr std::uint64_t buckets() const { return n == 0 ? 0 : (n - 1) / bucket + 1; }

  /// True if each block contains only whole buckets.
  PITH_HD constexpr bool are_small() const { return per_block > 0; }

  PITH_HD constexpr std::uint64_t count() const {
    if (n == 0) return 0;
    return are_small() ? (n - 1) / whole() + 1 : n / bucket * parts() + (n % bucket + span - 1) / span;
  }

  PITH_HD constexpr bucket_run at(std::uint64_t block) const {
    if (are_small()) {
      auto const first = block * whole();
      return {first, block * per_block, least(n - first, whole()), static_cast<std::uint32_t>(bucket)};
    }
    auto const b = n == bucket ? 0 : block / parts(), inside = (b == 0 ? block : block - b * parts()) * span;
    auto const width = n - b * bucket < bucket ? n - b * bucket : bucket;
    auto const size = least(width - inside, span);
    return {b * bucket + inside, b, size, size};
  }

  /// True if no block boundary splits a tile of a transform, where a tile has `tile_size` elements.
  constexpr bool hold(std::uint32_t tile_size) const {
    auto const step = are_small() ? whole() : bucket;
    return span % tile_size == 0 && (n <= step || step % tile_size == 0);
  }

  /// The number of tiles (core/detail/summation.hpp) in a full bucket.
  PITH_HD constexpr std::uint64_t tiles() const { return (bucket + tile - 1) / tile; }

  PITH_HD constexpr bucket_run tile_at(std::uint64_t t) const {
    auto const b = n == bucket ? 0 : t / tiles(), inside = (t - b * tiles()) * tile;
    auto const width = n - b * bucket < bucket ? n - b * bucket : bucket;
    auto const size = inside < width ? least(width - inside, tile) : 0;
    return {b * bucket + inside, b, size, size};
  }

  PITH_HD constexpr std::uint64_t width(std::uint64_t b) const {
    return n - b * bucket < bucket ? n - b * bucket : bucket;
  }

 private:
  PITH_HD constexpr std::uint64_t whole() const { return per_block * bucket; }
  PITH_HD constexpr std::uint64_t parts() const { return (bucket + span - 1) / span; }
  PITH_HD static constexpr std::uint32_t least(std::uint64_t a, std::uint64_t b) {
    return static_cast<std::uint32_t>(a < b ? a : b);
  }
};

/// True if the run consists of rows of `Row` elements. A row is the run of elements that one inner loop processes, and
/// a bucket consists of one or more rows. A constant length of rows lets compilers vectorise this loop.
template <std::uint32_t Row>
PITH_HD constexpr bool has_rows(bucket_run const& run, std::uint32_t span) {
  return run.count == span && run.width % Row == 0;
}

/// The base-2 logarithm of the number of rows in a bucket of `width` elements, where a row has `row` elements.
PITH_HD constexpr int rows_shift(std::uint32_t width, std::uint32_t row) {
  int shift = 0;
  while (row << shift < width) ++shift;
  return shift;
}

/// The number of elements that share a scale, in a tensor with n elements. A bucket size of 0 means the whole tensor.
PITH_HD constexpr std::uint64_t bucket_in(std::uint64_t n, std::uint64_t bucket) {
  return bucket == 0 || bucket > n ? n : bucket;
}

PITH_HD constexpr bucket_blocks blocks_of(std::uint64_t n, std::uint64_t bucket, std::uint32_t span) {
  auto const size = n == 0 ? 1 : bucket_in(n, bucket);
  return {n, size, span, size <= span ? span / static_cast<std::uint32_t>(size) : 0};
}

}}}  // namespace pith::PITH_ABI::detail
