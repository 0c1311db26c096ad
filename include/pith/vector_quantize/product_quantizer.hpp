// pith/vector_quantize/product_quantizer.hpp — vector quantization to the nearest codeword of a shared codebook.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/detail/pack.hpp>
#include <pith/core/detail/summation.hpp>
#include <pith/vector_quantize/detail/codewords.hpp>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

template <class In>
struct float_square {
  padded_floats<In> x;
  PITH_HD double operator()(std::uint64_t i) const { return x(i) * x(i); }
};

/// Computes the square root of *sum / n as a float, or NaN if the root is NaN or infinite.
struct root_mean_square {
  double const* sum;
  float* scale;
  std::uint64_t n;
  PITH_HD void operator()(std::uint64_t) const {
    *scale = finite_or_nan(static_cast<float>(sqrt(*sum / static_cast<double>(n))));
  }
};

/// Computes eight symbols, one for each run x of w elements. The symbol is the index of the codeword c that minimizes
/// |x - s c|^2, where s is the tensor's scale. This codeword has the largest value of 2 <x, c> - s |c|^2. A product of
/// two floats is exact in double precision.
template <class In, int Bits>
struct nearest_words {
  padded_floats<In> x;
  words_in_memory of;
  float const* scale;
  std::uint8_t* bytes;
  std::uint64_t count;

  PITH_HD void operator()(std::uint64_t g) const {
    std::uint32_t symbols[octet];
    for (std::uint64_t i = 0; i < octet_size(g, count); ++i) symbols[i] = nearest((g * octet + i) * of.width);
    pack(symbols, octet_size(g, count), Bits, bytes + g * Bits);
  }

 private:
  PITH_HD std::uint32_t nearest(std::uint64_t first) const {
    std::uint32_t best = 0;
    double most = 0;
    for (std::uint32_t j = 0; j < of.size; ++j) {
      auto score = -static_cast<double>(*scale) * static_cast<double>(of.numbers[j]);
      for (std::uint32_t k = 0; k < of.width; ++k) {
        score += 2 * x(first + k) * static_cast<double>(of.words[j * of.width + k]);
      }
      if (j == 0 || score > most) most = score, best = j;
    }
    return best;
  }
};

}  // namespace detail

/// Divides a tensor by its root mean square s and splits it into runs of w elements, where w is the codebook's width.
/// Encodes each run as the index of the nearest of 2^Bits codewords c. The index decodes to s c.
///
///   emits       ceil(n / w) symbols of Bits bits; side information: s as a float. The last run is padded with zeros
///   requires    a codebook of 2^Bits codewords (std::invalid_argument). The codebook must be equal on all ranks, so
///               its digest is part of the codec's name
///   state       a copy of the codewords in the executor's memory, which is not saved
///   complexity  one pass for s, and 2^(Bits + 1) flop per element to encode; scratch memory of one double per 16,384
///               elements
///   on NaN      a NaN or infinity makes the whole tensor NaN on all ranks. Doubles are rounded to floats, so that
///               those below 1e-45 become 0 and those above 3.4e38 become infinite. A codeword times the scale may
///               exceed the largest float where the element does not
///   properties  reproducible. There is no delta and no omega, because the error depends on how well the codebook fits
///               x. So error feedback requires `unverified`. On the samples to which the codebook was fitted, the
///               relative squared error is the distortion that `fit_codebook` returns
///   reference   Jégou, Douze and Schmid, Product Quantization for Nearest Neighbor Search, TPAMI 2011, but with one
///               codebook for all runs, so that a tensor of any size has enough samples. If elements differ in scale,
///               use `hadamard` as the previous stage
template <int Bits>
class product_quantizer : public detail::codeword_stage<Bits, false> {
  static_assert(1 <= Bits && Bits <= 12, "pith: product_quantizer<Bits> needs 1 <= Bits <= 12");
  using detail::codeword_stage<Bits, false>::words_;

 public:
  explicit product_quantizer(std::shared_ptr<codebook const> words)
      : detail::codeword_stage<Bits, false>(std::move(words)) {
    detail::require(words_ != nullptr, "product_quantizer: words must not be null");
    detail::require(words_->size() == std::uint64_t{1} << Bits, "product_quantizer<", Bits,
                    ">: the codebook must have ", 1 << Bits, " words, got ", words_->size());
    for (std::size_t first = 0; first < words_->words().size(); first += words_->width()) {
      double square = 0;
      for (std::size_t k = 0; k < words_->width(); ++k) {
        auto const v = static_cast<double>(words_->words()[first + k]);
        square += v * v;
      }
      squares_.push_back(static_cast<float>(square));
    }
  }
  explicit product_quantizer(codebook words) : product_quantizer(std::make_shared<codebook const>(std::move(words))) {}

  std::string name() const { return this->name_of("product_quantizer"); }

  template <class In>
  std::size_t side_bytes(shape const&) const {
    return sizeof(float);
  }
  template <real In, executor E>
  std::size_t scratch_bytes(E const&, shape const& dims) const {
    return scratch_for<double>(1) + detail::reduce_scratch_bytes<double>(dims.n);
  }

  template <real In, executor E>
  detail::uploaded_words<E> make_replicated(E const& exec, encoding_id const&, shape const&) const {
    return {exec, *words_, squares_};
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, packed<Bits>> y,
              detail::uploaded_words<E> const& replicated, no_state&) const {
    using namespace detail;
    auto* const sum = cx.ws.template take<double>(1).data;
    auto* const scale = side_as<float>(y.side);
    auto const from = padded_floats<In>{x.data, cx.dims.n};
    auto const runs = this->output_shape(cx.dims).n;
    reduce_into(cx.exec, sum, cx.dims.n, float_square<In>{from}, plus(), 0.0, cx.ws);
    cx.exec.for_each_index(1, root_mean_square{sum, scale, cx.dims.n == 0 ? 1 : cx.dims.n});
    cx.exec.for_each_index(octets(runs), nearest_words<In, Bits>{from, replicated.view(), scale, y.values.data, runs});
  }

 private:
  std::vector<float> squares_;
};

static_assert(stage<product_quantizer<8>, float, archetype> && reproducible<product_quantizer<8>>);
static_assert(!promises_of<product_quantizer<8>>.contractive && !promises_of<product_quantizer<8>>.unbiased);

}}  // namespace pith::PITH_ABI
