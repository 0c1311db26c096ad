// pith/vector_quantize/detail/codewords.hpp — codewords in an executor's memory, and the base of stages that send codewords.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/detail/pack.hpp>
#include <pith/vector_quantize/codebook.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Codewords in an executor's memory. `numbers` are additional numbers that the stage computed from the codewords.
struct words_in_memory {
  float const* words;
  float const* numbers;
  std::uint32_t width, size;
};

/// Returns element i rounded to a float, or zero beyond the tensor's end.
template <class In>
struct padded_floats {
  In const* x;
  std::uint64_t n;
  PITH_HD double operator()(std::uint64_t i) const {
    return i < n ? static_cast<double>(static_cast<float>(element_cast<accum<In>>(x[i]))) : 0;
  }
};

/// Decodes each of eight symbols to its codeword, multiplied by a scale. If `Signed` is true, each symbol has its own
/// scale, and the highest bit of the symbol is the sign of the scale. Otherwise, all symbols have the same scale.
template <class In, int Bits, bool Signed>
struct expand_words {
  std::uint8_t const* bytes;
  words_in_memory of;
  float const* scale;
  std::uint64_t count, n;
  In* x;

  PITH_HD void operator()(std::uint64_t g) const {
    std::uint32_t symbols[octet];
    unpack(bytes + g * Bits, octet_size(g, count), Bits, symbols);
    for (std::uint64_t i = 0; i < octet_size(g, count); ++i) put(g * octet + i, symbols[i]);
  }

 private:
  PITH_HD void put(std::uint64_t run, std::uint32_t symbol) const {
    auto const is_below = Signed && symbol >> (Bits - 1) != 0;
    auto const word = Signed ? symbol & ((1u << (Bits - 1)) - 1) : symbol;
    auto const own = static_cast<double>(scale[Signed ? run : 0]), factor = is_below ? -own : own;
    for (std::uint32_t k = 0; k < of.width && run * of.width + k < n; ++k) {
      auto const value = factor * static_cast<double>(of.words[word * of.width + k]);
      x[run * of.width + k] = saturated_cast<In>(static_cast<accum<In>>(value));
    }
  }
};

/// A copy of the codec's codebook in an executor's memory. This state is not saved.
template <executor E>
struct uploaded_words {
  buffer<float, E> words, numbers;
  std::uint32_t width;

  uploaded_words(E const& exec, codebook const& from, std::vector<float> const& other)
      : words(exec, from.words().size()), numbers(exec, other.size()), width(static_cast<std::uint32_t>(from.width())) {
    exec.upload(words.data(), from.words().data(), words.size_bytes());
    exec.upload(numbers.data(), other.data(), numbers.size_bytes());
    exec.wait();
  }
  void fields(field_visitor&) {}

  words_in_memory view() const {
    return {words.data(), numbers.data(), width, static_cast<std::uint32_t>(words.size() / width)};
  }
};

/// The base of stages that send indices of codewords. Such a stage sends one symbol of Bits bits for each run of w
/// elements, where w is the codebook's width.
template <int Bits, bool Signed>
class codeword_stage : public codec_base {
 public:
  template <class In>
  using output = packed<Bits>;

  static constexpr codec_traits traits = {.reproducible = true};

  shape output_shape(shape const& dims) const { return {blocks_for(dims.n, words_->width())}; }

  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, packed<Bits> const> y, values_on<E, In> x,
              uploaded_words<E> const& replicated) const {
    auto const runs = output_shape(cx.dims).n;
    auto const body = expand_words<In, Bits, Signed>{y.values.data, replicated.view(), side_as<float>(y.side),
                                                     runs,          cx.dims.n,         x.data};
    cx.exec.for_each_index(octets(runs), body);
  }

 protected:
  explicit codeword_stage(std::shared_ptr<codebook const> words) : words_(std::move(words)) {}

  std::string name_of(char const* stage) const {
    return text(stage, "<", Bits, ">(", words_->width(), ",", hexadecimal(words_->digest()), ")");
  }

  std::shared_ptr<codebook const> words_;
};

}}}  // namespace pith::PITH_ABI::detail
