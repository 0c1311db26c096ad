// examples/language/text.hpp — a text as numbers of its characters, and random sequences of it.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace language {

/// Sequences of equal length, and the characters that follow each of their characters.
struct batch {
  std::size_t sequences, length;
  std::vector<int> characters, next;  ///< [place][sequence], so that a step of the network reads consecutive values
};

inline std::string read(std::filesystem::path const& name) {
  auto const file = std::unique_ptr<gzFile_s, int (*)(gzFile)>(gzopen(name.c_str(), "rb"), &gzclose);
  auto all = std::string();
  auto part = std::array<char, 1 << 16>();
  for (int n = 0; file && (n = gzread(file.get(), part.data(), part.size())) > 0;)
    all.append(part.data(), static_cast<std::size_t>(n));
  if (all.empty()) throw std::runtime_error("language: cannot read a text from " + name.string());
  return all;
}

/// The first nine tenths are for training, the rest is for validation.
class text {
 public:
  explicit text(std::filesystem::path const& name) {
    auto const all = read(name);
    auto characters = all;
    std::sort(characters.begin(), characters.end());
    characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
    kinds_ = characters.size();
    for (auto const c : all) numbers_.push_back(static_cast<int>(characters.find(c)));
    if (numbers_.size() < 10'000) throw std::runtime_error("language: the text must have at least 10000 characters");
  }

  /// The number of different characters.
  std::size_t kinds() const { return kinds_; }
  std::span<int const> training() const { return std::span(numbers_).first(numbers_.size() / 10 * 9); }
  std::span<int const> validation() const { return std::span(numbers_).subspan(numbers_.size() / 10 * 9); }

  /// The entropy of single characters, in nats: the loss of a model that only counts characters.
  double unigram_entropy() const {
    auto counts = std::vector<double>(kinds_);
    for (auto const c : numbers_) ++counts[static_cast<std::size_t>(c)];
    double entropy = 0;
    for (auto const n : counts) entropy -= n / size() * std::log(n / size());
    return entropy;
  }

 private:
  double size() const { return static_cast<double>(numbers_.size()); }

  std::vector<int> numbers_;
  std::size_t kinds_ = 0;
};

/// Random sequences.
inline batch sample(std::span<int const> from, std::size_t sequences, std::size_t length, std::mt19937_64& random) {
  auto drawn = batch{sequences, length, std::vector<int>(sequences * length), std::vector<int>(sequences * length)};
  for (std::size_t s = 0; s < sequences; ++s) {
    auto const first = random() % (from.size() - length);
    for (std::size_t t = 0; t < length; ++t) {
      drawn.characters[t * sequences + s] = from[first + t];
      drawn.next[t * sequences + s] = from[first + t + 1];
    }
  }
  return drawn;
}

}  // namespace language
