// pith/vector_quantize/hypersphere_quantizer.hpp — unbiased vector quantization: a codeword drawn at random, and a length.
#pragma once

#include <pith/core/draws.hpp>
#include <pith/lowrank/detail/exact_product.hpp>
#include <pith/vector_quantize/detail/codewords.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The inverse of the w x w matrix G, which is the sum of c c^T over all codewords c. Gauss-Jordan elimination with
/// partial pivoting computes the inverse.
class inverse_gram {
 public:
  explicit inverse_gram(codebook const& of) : width_(of.width()), left_(width_ * width_), inverse_(width_ * width_) {
    for (std::size_t i = 0; i < width_; ++i) inverse_[i * width_ + i] = 1;
    for (std::size_t first = 0; first < of.words().size(); first += width_) {
      auto const* const c = of.words().data() + first;
      for (std::size_t i = 0; i < width_ * width_; ++i)
        left_[i] += static_cast<double>(c[i / width_]) * static_cast<double>(c[i % width_]);
    }
    for (std::size_t i = 0; i < width_; ++i) eliminate(i);
  }

  /// Returns the dual vector of a codeword c, which is G^-1 c.
  std::vector<float> dual(float const* word) const {
    auto made = std::vector<float>();
    for (std::size_t i = 0; i < width_; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < width_; ++k)
        sum = add_product<double>(sum, inverse_[i * width_ + k], static_cast<double>(word[k]));
      made.push_back(static_cast<float>(sum));
    }
    return made;
  }
  /// Returns the largest sum of magnitudes in a row of G^-1, which is an upper bound of the eigenvalues of G^-1.
  double most() const {
    double largest = 0;
    for (std::size_t i = 0; i < width_; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < width_; ++k) sum += std::abs(inverse_[i * width_ + k]);
      largest = std::max(largest, sum);
    }
    return largest;
  }

 private:
  void eliminate(std::size_t column) {
    auto pivot = column;
    for (auto i = column; i < width_; ++i) {
      if (std::abs(left_[i * width_ + column]) > std::abs(left_[pivot * width_ + column])) pivot = i;
    }
    auto const value = left_[pivot * width_ + column];
    require(std::abs(value) > 1e-6, "hypersphere_quantizer: words must span all ", width_, " dimensions");
    for (auto* m : {&left_, &inverse_}) {
      std::swap_ranges(row(*m, column), row(*m, column) + width_, row(*m, pivot));
      for (std::size_t k = 0; k < width_; ++k) row(*m, column)[k] /= value;
    }
    for (std::size_t i = 0; i < width_; ++i) {
      auto const factor = left_[i * width_ + column];
      if (i == column) continue;
      for (auto* m : {&left_, &inverse_})
        for (std::size_t k = 0; k < width_; ++k)
          row(*m, i)[k] = add_product<double>(row(*m, i)[k], -factor, row(*m, column)[k]);
    }
  }
  double* row(std::vector<double>& m, std::size_t i) const { return m.data() + i * width_; }

  std::size_t width_;
  std::vector<double> left_, inverse_;
};

/// Computes eight symbols, one for each run x of w elements. For each symbol, draws one of the coefficients <d_j, x>,
/// where d_j is the dual vector of codeword j. The probability of each coefficient is proportional to its magnitude.
/// The symbol contains j and the coefficient's sign. A product of two floats is exact in double precision.
template <class In, int Bits>
struct random_words {
  padded_floats<In> x;
  words_in_memory duals;
  draws from;
  float* lengths;
  std::uint8_t* bytes;
  std::uint64_t count;

  PITH_HD void operator()(std::uint64_t g) const {
    std::uint32_t symbols[octet];
    for (std::uint64_t i = 0; i < octet_size(g, count); ++i) symbols[i] = drawn(g * octet + i);
    pack(symbols, octet_size(g, count), Bits, bytes + g * Bits);
  }

 private:
  PITH_HD std::uint32_t drawn(std::uint64_t run) const {
    double sum = 0, before = 0;
    for (std::uint32_t j = 0; j < duals.size; ++j) sum += magnitude(coefficient(run, j));
    lengths[run] = finite_or_nan(static_cast<float>(sum));
    auto const place = sum * ((from(run / 4).word[run % 4] + 0.5) * 0x1p-32);
    std::uint32_t last = 0;
    for (std::uint32_t j = 0; j < duals.size; ++j) {
      auto const own = coefficient(run, j);
      if (own != 0) last = own < 0 ? j | 1u << (Bits - 1) : j;
      before += magnitude(own);
      if (before > place) break;
    }
    return last;
  }
  PITH_HD double coefficient(std::uint64_t run, std::uint32_t j) const {
    double sum = 0;
    for (std::uint32_t k = 0; k < duals.width; ++k) {
      sum += x(run * duals.width + k) * static_cast<double>(duals.words[j * duals.width + k]);
    }
    return sum;
  }
};

}  // namespace detail

/// Divides a tensor into runs x of w elements, where w is the codebook's width. Encodes a run as a length a, a sign,
/// and one of K = 2^(Bits - 1) unit vectors c_j, which are the codewords of the codebook. The dual vectors are
/// d_j = G^-1 c_j, where G is the sum of all c_j c_j^T. Therefore, x is the sum of <d_j, x> c_j over all j. The length
/// a is the sum of all |<d_j, x>|. The codeword c_j is drawn with probability |<d_j, x>| / a. The run decodes to a c_j
/// or -a c_j, with the sign of <d_j, x>. The expected decoded value is therefore x.
///
///   emits       ceil(n / w) symbols of Bits bits, in which the highest bit is the sign; side information: the length a
///               of each run, as a float. The last run is padded with zeros
///   requires    a codebook of 2^(Bits - 1) unit vectors that span the space (std::invalid_argument). The codebook must
///               be equal on all ranks, so its digest is part of the codec's name
///   state       codewords and dual vectors in the executor's memory. Both are computed from the codebook and are not
///               saved
///   complexity  2^(Bits + 1) flop per element to encode
///   on NaN      a NaN or infinity makes its run NaN, and so does a length that overflows. Doubles are rounded to
///               floats, so that those below 1e-45 become 0 and those above 3.4e38 become infinite
///   properties  unbiased up to 2^-22 times the largest entry of G^-1, if that is above 1. omega = K |G^-1| - 1, where
///               |G^-1| is the largest row sum of magnitudes. For a run, E|a c - x|^2 = a^2 - |x|^2, and a^2 <= K
///               |G^-1| |x|^2. omega is w - 1 if the codewords are evenly spread, so that G is K / w times the
///               identity. With infinitely many evenly spread codewords, the relative squared error is 2 w / pi - 1
///   reference   Gandikota, Kane, Maity and Mazumdar, vqSGD: Vector Quantized Stochastic Gradient Descent, AISTATS
///               2021. vqSGD sends points +- sqrt(w) e_i and |x|_2, with the relative squared error w - 1.
///               With `codebook::axes`, a is |x|_1, and the error is smaller than in vqSGD. Codebooks are from Dai et
///               al., Hyper-Sphere Quantization, 2019. A random choice between the two nearest codewords is unbiased
///               only if x lies on the line between these codewords
template <int Bits>
class hypersphere_quantizer : public detail::codeword_stage<Bits, true> {
  static_assert(2 <= Bits && Bits <= 12, "pith: hypersphere_quantizer<Bits> needs 2 <= Bits <= 12");
  using detail::codeword_stage<Bits, true>::words_;

 public:
  using facets = ext::facets<ext::unbiased>;

  explicit hypersphere_quantizer(std::shared_ptr<codebook const> words)
      : detail::codeword_stage<Bits, true>(std::move(words)) {
    detail::require(words_ != nullptr, "hypersphere_quantizer: words must not be null");
    detail::require(words_->size() == std::uint64_t{1} << (Bits - 1), "hypersphere_quantizer<", Bits,
                    ">: the codebook must have ", 1 << (Bits - 1), " words, got ", words_->size());
    auto const inverse = detail::inverse_gram(*words_);
    auto duals = std::vector<float>();
    for (std::size_t first = 0; first < words_->words().size(); first += words_->width()) {
      auto const* const word = words_->words().data() + first;
      require_unit(word);
      auto const dual = inverse.dual(word);
      duals.insert(duals.end(), dual.begin(), dual.end());
    }
    omega_ = static_cast<double>(words_->size()) * inverse.most() - 1;
    duals_ = std::make_shared<std::vector<float> const>(std::move(duals));
  }
  explicit hypersphere_quantizer(codebook words)
      : hypersphere_quantizer(std::make_shared<codebook const>(std::move(words))) {}

  std::string name() const { return this->name_of("hypersphere_quantizer"); }
  double omega(shape const&) const { return omega_; }

  template <class In>
  std::size_t side_bytes(shape const& dims) const {
    return static_cast<std::size_t>(this->output_shape(dims).n) * sizeof(float);
  }

  template <real In, executor E>
  detail::uploaded_words<E> make_replicated(E const& exec, encoding_id const&, shape const&) const {
    return {exec, *words_, *duals_};
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, packed<Bits>> y,
              detail::uploaded_words<E> const& replicated, no_state&) const {
    using namespace detail;
    auto const runs = this->output_shape(cx.dims).n;
    auto const of = replicated.view();
    auto const duals = words_in_memory{of.numbers, nullptr, of.width, of.size};
    cx.exec.for_each_index(octets(runs),
                           random_words<In, Bits>{padded_floats<In>{x.data, cx.dims.n}, duals, draws(cx.id),
                                                  side_as<float>(y.side), y.values.data, runs});
  }

 private:
  void require_unit(float const* word) const {
    double square = 0;
    for (std::size_t k = 0; k < words_->width(); ++k)
      square += static_cast<double>(word[k]) * static_cast<double>(word[k]);
    detail::require(std::abs(square - 1) < 1e-5, "hypersphere_quantizer: words must have length 1, got ",
                    std::sqrt(square));
  }

  std::shared_ptr<std::vector<float> const> duals_;
  double omega_ = 0;
};

static_assert(stage<hypersphere_quantizer<8>, float, archetype> && promises_of<hypersphere_quantizer<8>>.unbiased);
static_assert(reproducible<hypersphere_quantizer<8>> && !promises_of<hypersphere_quantizer<8>>.contractive);

}}  // namespace pith::PITH_ABI
