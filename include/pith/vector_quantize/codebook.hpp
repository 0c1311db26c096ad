// pith/vector_quantize/codebook.hpp — a codebook, which consists of short vectors and is equal on all ranks.
#pragma once

#include <pith/core/digest.hpp>
#include <pith/core/element.hpp>
#include <pith/core/error.hpp>
#include <pith/core/random.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// An array of `size()` vectors (codewords) with `width()` numbers each, in host memory. A codebook is immutable, and
/// several quantizers may share it.
///
///   requires    a width of 1 to 64, at least one codeword, and only finite numbers (std::invalid_argument)
class codebook {
 public:
  codebook(std::uint64_t width, std::vector<float> words) : width_(width), words_(std::move(words)) {
    detail::require(1 <= width && width <= 64, "codebook: width must be in [1, 64], got ", width);
    detail::require(!words_.empty() && words_.size() % width == 0, "codebook: words must have a positive multiple of ",
                    width, " numbers, got ", words_.size());
    auto all = pith::digest() << width;
    for (auto const v : words_) {
      detail::require(std::isfinite(v), "codebook: words must be finite numbers, got ", v);
      all << std::bit_cast<std::uint32_t>(v);
    }
    digest_ = all.value();
  }

  /// Makes a codebook of the `width` unit vectors along the axes.
  static codebook axes(std::uint64_t width) {
    auto words = std::vector<float>(width * width);
    for (std::uint64_t i = 0; i < width; ++i) words[i * width + i] = 1;
    return codebook(width, std::move(words));
  }

  /// Makes a codebook of `size` unit vectors in random directions. Ranks with the same seed get the same codebook. The
  /// components of a vector are approximately normal numbers (sums of eight 16-bit numbers) before the vector is scaled
  /// to length 1.
  static codebook directions(std::uint64_t width, std::uint64_t size, std::uint64_t seed) {
    auto words = std::vector<float>();
    for (std::uint32_t word = 0; word < size; ++word) {
      auto direction = std::vector<double>();
      double square = 0;
      for (std::uint32_t i = 0; i < width; ++i) {
        auto const block = philox4x32_10({{i, word, 0, 0}}, key_of(seed));
        double sum = -4 * 65535.0;
        for (unsigned lane = 0; lane < 8; ++lane) sum += block.lane(lane);
        direction.push_back(sum);
        square += sum * sum;
      }
      for (auto const v : direction) words.push_back(static_cast<float>(v / std::sqrt(square)));
    }
    return codebook(width, std::move(words));
  }

  std::uint64_t width() const { return width_; }
  std::uint64_t size() const { return words_.size() / width_; }
  std::vector<float> const& words() const { return words_; }

  /// A digest of the width and of all codewords. Ranks compare digests to detect different codebooks.
  std::uint64_t digest() const { return digest_; }

  static philox_key key_of(std::uint64_t seed) {
    return {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  }

 private:
  std::uint64_t width_;
  std::vector<float> words_;
  std::uint64_t digest_ = 0;
};

}}  // namespace pith::PITH_ABI
