// text.hpp — texts as sequences of tokens, which are characters or words.
#pragma once

#include "dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace pith_libtorch {

inline std::string read_text(std::filesystem::path const& path) {
  auto file = std::ifstream(path, std::ios::binary);
  if (!file) throw std::invalid_argument(fmt::format("--data: cannot read {}", path.string()));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A text as numbers of tokens.
struct tokens {
  torch::Tensor training, validation;
  std::int64_t kinds;  ///< the number of different tokens
};

/// Characters, numbered in their order. The first 90 % of the text are for training.
inline tokens read_characters(std::filesystem::path const& path) {
  auto const text = read_text(path);
  auto const characters = std::set<char>(text.begin(), text.end());
  auto number = std::map<char, std::int64_t>();
  for (auto const c : characters) number.emplace(c, number.size());
  auto all = std::vector<std::int64_t>();
  for (auto const c : text) all.push_back(number[c]);
  auto const both = torch::tensor(all);
  auto const first = static_cast<std::int64_t>(0.9 * static_cast<double>(all.size()));
  return {both.slice(0, 0, first), both.slice(0, first), static_cast<std::int64_t>(number.size())};
}

/// The words of a text. Each line ends with the word "<eos>".
inline std::vector<std::string> words_of(std::string const& text) {
  auto words = std::vector<std::string>();
  auto lines = std::istringstream(text);
  for (auto line = std::string(); std::getline(lines, line); words.emplace_back("<eos>")) {
    auto parts = std::istringstream(line);
    words.insert(words.end(), std::istream_iterator<std::string>(parts), {});
  }
  return words;
}

/// The numbers of the `most` most frequent words.
inline std::map<std::string, std::int64_t> frequent_words(std::vector<std::string> const& words, std::size_t most) {
  auto counts = std::map<std::string, std::int64_t>();
  for (auto const& word : words) ++counts[word];
  auto ordered = std::vector<std::pair<std::string, std::int64_t>>(counts.begin(), counts.end());
  std::ranges::stable_sort(ordered, std::greater(), &std::pair<std::string, std::int64_t>::second);
  auto numbers = std::map<std::string, std::int64_t>();
  for (std::size_t i = 0; i < std::min(most, ordered.size()); ++i) numbers.emplace(ordered[i].first, i);
  return numbers;
}

inline torch::Tensor numbered(std::vector<std::string> const& words,
                              std::map<std::string, std::int64_t> const& numbers) {
  auto const unknown = numbers.find("<unk>");
  if (unknown == numbers.end()) throw std::invalid_argument("--data: train.txt must have the word <unk>, got none");
  auto all = std::vector<std::int64_t>();
  for (auto const& word : words) {
    auto const found = numbers.find(word);
    all.push_back(found == numbers.end() ? unknown->second : found->second);
  }
  return torch::tensor(all);
}

/// The words of train.txt and valid.txt in a folder. All but the most frequent words count as "<unk>".
inline tokens read_words(std::filesystem::path const& folder, std::int64_t most) {
  auto const training = words_of(read_text(folder / "train.txt"));
  auto const numbers = frequent_words(training, static_cast<std::size_t>(most));
  return {numbered(training, numbers), numbered(words_of(read_text(folder / "valid.txt")), numbers),
          static_cast<std::int64_t>(numbers.size())};
}

/// Sequences of `context` tokens, and the sequences one token later.
class text final : public dataset {
 public:
  text(tokens of, std::int64_t context, std::uint64_t seed) : dataset(seed), of_(std::move(of)), context_(context) {
    auto const shortest = std::min(of_.training.numel(), of_.validation.numel());
    if (shortest <= context)
      throw std::invalid_argument(fmt::format("--data: needs more than {} tokens, got {}", context, shortest));
  }

  samples draw(std::string const& split, std::int64_t size) override {
    auto const& all = split == "training" ? of_.training : of_.validation;
    return sequences(all, random(split, all.numel() - context_, size));
  }
  std::vector<samples> validation() const override {
    auto parts = std::vector<samples>();
    auto const first = torch::arange(0, of_.validation.numel() - context_, context_);
    for (auto const& part : first.split(64)) parts.push_back(sequences(of_.validation, part));
    return parts;
  }

 private:
  samples sequences(torch::Tensor const& all, torch::Tensor const& first) const {
    auto const places = first.unsqueeze(1) + torch::arange(context_);
    return {all.index({places}), all.index({places + 1})};
  }

  tokens of_;
  std::int64_t context_;
};

}  // namespace pith_libtorch
