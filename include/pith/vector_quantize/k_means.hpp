// pith/vector_quantize/k_means.hpp — codebooks fitted to samples by Lloyd's algorithm.
#pragma once

#include <pith/core/span.hpp>
#include <pith/vector_quantize/codebook.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A codebook and its distortion, which is the mean squared error per element if each sample is replaced by the nearest
/// codeword.
struct fitted_codebook {
  codebook words;
  double distortion;
};

namespace detail {

/// Lloyd's algorithm, computed on the host in double precision. The order of operations is fixed, so that the same
/// program gives the same codewords on all ranks.
class k_means {
 public:
  k_means(std::vector<double> samples, std::size_t width)
      : samples_(std::move(samples)), width_(width), nearest_(count()), distance_(count(), infinite) {}

  /// Initializes the codewords as k-means++ does. The first codeword is a random sample. Each further codeword is a
  /// sample that is drawn with a probability proportional to its squared distance from the nearest earlier codeword.
  void seed(std::size_t size, philox_key key) {
    for (std::uint32_t j = 0; j < size; ++j) {
      auto const word = philox4x32_10({{j, 0, 0, 0}}, key).word[0];
      auto const at = j == 0 ? static_cast<std::size_t>(std::uint64_t{word} * count() >> 32) : drawn(word * 0x1p-32);
      words_.insert(words_.end(), sample(at), sample(at) + width_);
      for (std::size_t i = 0; i < count(); ++i) consider(i, j);
    }
  }

  /// Runs at most `rounds` iterations. Each iteration moves each codeword to the mean of its assigned samples, and then
  /// assigns each sample to the nearest codeword. Stops when an iteration does not change the assignment.
  void refine(unsigned rounds) {
    for (auto before = nearest_; rounds > 0; --rounds, before = nearest_) {
      move_to_means();
      std::ranges::fill(distance_, infinite);
      for (std::size_t i = 0; i < count(); ++i) {
        for (std::size_t j = 0; j < size(); ++j) consider(i, j);
      }
      if (nearest_ == before) return;
    }
  }

  std::vector<double> const& words() const { return words_; }
  double distortion() const {
    return std::reduce(distance_.begin(), distance_.end()) / static_cast<double>(samples_.size());
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  std::size_t count() const { return samples_.size() / width_; }
  std::size_t size() const { return words_.size() / width_; }
  double const* sample(std::size_t i) const { return samples_.data() + i * width_; }

  void consider(std::size_t i, std::size_t word) {
    double distance = 0;
    for (std::size_t k = 0; k < width_; ++k) {
      auto const off = sample(i)[k] - words_[word * width_ + k];
      distance += off * off;
    }
    if (distance < distance_[i]) distance_[i] = distance, nearest_[i] = word;
  }

  /// Returns the index of a sample, given a random number `share` in [0, 1). The running sum of squared distances
  /// reaches the fraction `share` of the total at this sample.
  std::size_t drawn(double share) const {
    auto left = share * std::accumulate(distance_.begin(), distance_.end(), 0.0);
    std::size_t i = 0;
    while (i + 1 < count() && left >= distance_[i]) left -= distance_[i++];
    return i;
  }

  /// Moves each codeword to the mean of its assigned samples. A codeword without assigned samples stays unchanged.
  void move_to_means() {
    auto sums = std::vector<double>(words_.size()), members = std::vector<double>(size());
    for (std::size_t i = 0; i < count(); ++i) {
      ++members[nearest_[i]];
      for (std::size_t k = 0; k < width_; ++k) sums[nearest_[i] * width_ + k] += sample(i)[k];
    }
    for (std::size_t k = 0; k < words_.size(); ++k) {
      if (members[k / width_] > 0) words_[k] = sums[k] / members[k / width_];
    }
  }

  std::vector<double> samples_, words_;
  std::size_t width_;
  std::vector<std::size_t> nearest_;
  std::vector<double> distance_;
};

}  // namespace detail

/// Fits a codebook to a tensor that is equal on all ranks, such as a mean. The samples are the tensor's runs of `width`
/// elements, divided by the tensor's root mean square, as in `product_quantizer`. A shorter last run is ignored. There
/// are at most `rounds` iterations, and fewer if no sample changes its codeword.
///
///   requires    at least one run, a width of 1 to 64, at least one codeword, and finite samples that are not all
///               zero (std::invalid_argument)
///   complexity  for the initialization and for each iteration, one squared distance of `width` elements per pair of a
///               run and a codeword; on the host, in double
///   properties  a local optimum of the mean squared error. Codewords and distortion depend on rounding, so programs
///               that were compiled differently may get different codebooks. In this case, the digests in the codecs'
///               names also differ
///   reference   Lloyd, Least Squares Quantization in PCM, 1982; Arthur and Vassilvitskii, k-means++, SODA 2007
inline fitted_codebook fit_codebook(span<float const> samples, std::uint64_t width, std::uint64_t size,
                                    std::uint64_t seed = 0, unsigned rounds = 50) {
  detail::require(1 <= width && width <= 64, "fit_codebook: width must be in [1, 64], got ", width);
  detail::require(samples.size() >= width, "fit_codebook: samples must have at least ", width, " elements, got ",
                  samples.size());
  detail::require(size >= 1, "fit_codebook: size must be at least 1, got 0");
  auto runs = std::vector<double>(samples.data(), samples.data() + samples.size() / width * width);
  double square = 0;
  for (auto const v : runs) square += v * v;
  detail::require(square > 0 && std::isfinite(square), "fit_codebook: samples must be finite and not all zero");
  for (auto& v : runs) v /= std::sqrt(square / static_cast<double>(runs.size()));
  auto means = detail::k_means(std::move(runs), width);
  means.seed(size, codebook::key_of(seed));
  means.refine(rounds);
  return {codebook(width, {means.words().begin(), means.words().end()}), means.distortion()};
}

}}  // namespace pith::PITH_ABI
