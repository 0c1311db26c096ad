// pith/vector_quantize/pca_basis.hpp — the mean and the principal components of a tensor's slices, fitted to sample tensors.
#pragma once

#include <pith/core/digest.hpp>
#include <pith/core/element.hpp>
#include <pith/core/error.hpp>
#include <pith/vector_quantize/pca_fit.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// The basis of `pca`: the principal components U (K x d) of slices with K elements, and the mean of the slices. A
/// basis is immutable, and its numbers are doubles in host memory.
///
///   auto samples = pith::slice_samples<float>(conv.n(), conv.usual_slice(), conv.order());
///   samples.add<float>(gradient);   // 100 times, with means that are equal on all ranks
///   auto const basis = pith::pca_basis::fit(samples);
///
///   requires    finite samples of at least two tensors; 0 <= lambda < 1 (std::invalid_argument)
///   complexity  for m samples (slices): if m < K, the m x m Gram matrix takes m^2 K flop, and the eigensolver takes 7
///               m^3 flop. Otherwise the K x K covariance matrix takes K^2 m flop, and the eigensolver takes 7 K^3
///               flop. Memory for the samples in double and for two of these matrices
///   properties  among affine maps with d numbers per slice, pca with this basis has the smallest mean squared error on
///               the samples. This error is exactly the sum of the dropped eigenvalues. For slices that are not among
///               the samples, the error may be larger
///   reference   Yu, Lin, Narra, Li, Li, Kim, Schwing, Annavaram and Avestimehr, GradiVeQ, NeurIPS 2018. If each slice
///               has its own mean, the rank of the samples' covariance matrix is at most m minus the number of slices
///               per tensor. This rank is an upper bound of d for any lambda
class pca_basis {
 public:
  template <std::floating_point A, eigen_solver Solver = householder_qr>
  static pca_basis fit(slice_samples<A> const& samples, pca_options const& options = {}, Solver const& solver = {}) {
    detail::require(0 <= options.lambda && options.lambda < 1, "pca_basis::fit: lambda must be in [0, 1), got ",
                    options.lambda);
    detail::require(samples.count() >= 2 && samples.n() > 0,
                    "pca_basis::fit: samples must be at least 2 tensors of at least 1 element, got ", samples.count(),
                    " of ", samples.n());
    auto const x = detail::centred(samples, options.about);
    auto const require_finite = [](double value) {
      detail::require(std::isfinite(value), "pca_basis::fit: samples must have finite squares");
    };
    require_finite(detail::dot(x.rows.data(), x.rows.data(), x.rows.size()));
    auto of = detail::principal_components(x, options, solver);
    require_finite(of.values.front());
    return pca_basis(samples.order(), samples.slice(), std::move(of.vectors), x.mean, std::move(of.values));
  }

  std::uint64_t slice() const { return slice_; }
  std::uint64_t components() const { return vectors_.size() / slice_; }
  slice_order const& order() const { return order_; }

  /// The components, stored one after another. Each component has K numbers.
  std::vector<double> const& vectors() const { return vectors_; }
  /// The means: one for each slice of a tensor, or one for all slices.
  std::vector<double> const& mean() const { return mean_; }
  /// The eigenvalues of the samples' covariance in descending order, including those of dropped components.
  std::vector<double> const& eigenvalues() const { return eigenvalues_; }
  /// The fraction of the samples' variance that belongs to the dropped components.
  double dropped() const {
    double kept = 0, total = 0;
    for (std::size_t i = 0; i < eigenvalues_.size(); ++i) {
      total += eigenvalues_[i];
      if (i < components()) kept = total;
    }
    return total == 0 ? 0 : (total - kept) / total;
  }

  std::uint64_t slices(std::uint64_t n) const { return detail::blocks_for(n, slice_); }
  /// True if this basis has a mean for each slice of a tensor with n elements, or one mean for all slices. An empty
  /// tensor needs no mean.
  bool fits(std::uint64_t n) const {
    return n == 0 || (order_.fits(n) && (mean_.size() == slice_ || mean_.size() / slice_ == slices(n)));
  }

  /// A digest of all members. Ranks compare digests to detect different bases.
  std::uint64_t digest() const { return digest_; }

  /// Serializes the basis to bytes in this machine's byte order.
  ///
  ///   errors      load validates every number. load throws std::invalid_argument if the bytes were modified or do not
  ///               come from save
  std::vector<std::byte> save() const {
    auto words = header();
    words.push_back(digest_);
    for (auto const* numbers : {&vectors_, &mean_, &eigenvalues_})
      for (auto const v : *numbers) words.push_back(std::bit_cast<std::uint64_t>(v));
    auto bytes = std::vector<std::byte>(words.size() * sizeof(std::uint64_t));
    std::memcpy(bytes.data(), words.data(), bytes.size());
    return bytes;
  }
  static pca_basis load(span<std::byte const> bytes) {
    auto words = std::vector<std::uint64_t>(bytes.size() / sizeof(std::uint64_t));
    if (!words.empty()) std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint64_t));
    detail::require(bytes.size() % sizeof(std::uint64_t) == 0 && words.size() > header_words,
                    "pca_basis::load: the basis must have a multiple of 8 bytes, at least ", 8 * (header_words + 1),
                    ", got ", bytes.size());
    detail::require(words[0] == magic, "pca_basis::load: the basis must begin with \"pithpca0\", got other bytes");
    auto const slice = words[1], components = words[2], means = words[3], values = words[4];
    auto const numbers = words.size() - header_words - 1;
    detail::require(1 <= slice && slice <= numbers && 1 <= components && components <= slice && means >= 1 &&
                        components <= numbers / slice && means <= numbers / slice && values <= slice &&
                        (components + means) * slice + values == numbers,
                    "pca_basis::load: the basis must have ", components, " vectors and ", means, " means of ", slice,
                    " numbers and ", values, " eigenvalues, got ", numbers, " numbers");
    auto const order = words[5] == 0 ? slice_order() : slice_order::oihw(words[5], words[6], words[7]);
    auto at = words.begin() + header_words + 1;
    auto const take = [&](std::uint64_t count) {
      auto taken = std::vector<double>();
      for (; count > 0; --count) taken.push_back(std::bit_cast<double>(*at++));
      return taken;
    };
    auto vectors = take(components * slice), mean = take(means * slice), eigenvalues = take(values);
    auto const made = pca_basis(order, slice, std::move(vectors), std::move(mean), std::move(eigenvalues));
    detail::require(std::ranges::equal(made.header(), std::span(words).first(header_words)),
                    "pca_basis::load: an order of 0 filters must have depth and window of 1, got ", words[6], " and ",
                    words[7]);
    detail::require(made.digest_ == words[header_words], "pca_basis::load: the basis is damaged: its digest must be ",
                    words[header_words], ", got ", made.digest_);
    made.require_sound();
    return made;
  }

 private:
  static constexpr std::uint64_t magic = 0x30616370'68746970;  ///< "pithpca0"
  static constexpr std::size_t header_words = 8;

  pca_basis(slice_order order, std::uint64_t slice, std::vector<double> vectors, std::vector<double> mean,
            std::vector<double> eigenvalues)
      : order_(order),
        slice_(slice),
        vectors_(std::move(vectors)),
        mean_(std::move(mean)),
        eigenvalues_(std::move(eigenvalues)) {
    auto all = pith::digest();
    for (auto const word : header()) all << word;
    for (auto const* numbers : {&vectors_, &mean_, &eigenvalues_})
      for (auto const v : *numbers) all << std::bit_cast<std::uint64_t>(v);
    digest_ = all.value();
  }

  std::vector<std::uint64_t> header() const {
    return {magic,          slice_,         components(), mean_.size() / slice_, eigenvalues_.size(), order_.filters(),
            order_.depth(), order_.window()};
  }

  void require_sound() const {
    auto const is_number = [](double v) { return std::isfinite(v); };
    auto const falls = [](double a, double b) { return a < b; };
    for (std::size_t k = 0; k < vectors_.size(); k += slice_) {
      auto const square = detail::dot(vectors_.data() + k, vectors_.data() + k, slice_);
      detail::require(std::abs(square - 1) <= 1e-9, "pca_basis::load: vectors must have length 1, got ",
                      std::sqrt(square));
    }
    detail::require(std::ranges::all_of(mean_, is_number), "pca_basis::load: means must be finite");
    detail::require(std::ranges::all_of(eigenvalues_, is_number) &&
                        std::ranges::adjacent_find(eigenvalues_, falls) == eigenvalues_.end() &&
                        (eigenvalues_.empty() || eigenvalues_.back() >= 0),
                    "pca_basis::load: eigenvalues must be finite, fall and be at least 0");
  }

  slice_order order_;
  std::uint64_t slice_;
  std::vector<double> vectors_, mean_, eigenvalues_;
  std::uint64_t digest_ = 0;
};

}}  // namespace pith::PITH_ABI
