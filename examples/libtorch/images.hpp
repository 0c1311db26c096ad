// images.hpp — the images of CIFAR-10.
#pragma once

#include "dataset.hpp"
#include "text.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace pith_libtorch {

/// Normalised images and their labels, of one binary file. A record is a label and 3 x 32 x 32 bytes.
inline samples read_images(std::filesystem::path const& path) {
  constexpr std::int64_t record = 1 + 3 * 32 * 32;
  auto bytes = read_text(path);
  auto const n = static_cast<std::int64_t>(bytes.size());
  if (n == 0 || n % record != 0)
    throw std::invalid_argument(
        fmt::format("--data: {} must have records of {} bytes, got {} bytes", path.string(), record, n));
  auto const all = torch::from_blob(bytes.data(), {n / record, record}, torch::kByte);
  auto const mean = torch::tensor({0.4914, 0.4822, 0.4465}, torch::kFloat).view({3, 1, 1});
  auto const deviation = torch::tensor({0.2470, 0.2435, 0.2616}, torch::kFloat).view({3, 1, 1});
  auto const pixels = all.slice(1, 1).to(torch::kFloat).view({-1, 3, 32, 32}) / 255;
  return {(pixels - mean) / deviation, all.select(1, 0).to(torch::kLong)};
}

/// A folder's files data_batch_*.bin for training, and test_batch.bin for validation. Training images are shifted by up
/// to four pixels and flipped, at random.
class images final : public dataset {
 public:
  images(std::filesystem::path const& folder, std::uint64_t seed)
      : dataset(seed), training_(read_training(folder)), validation_(read_images(folder / "test_batch.bin")) {}

  samples draw(std::string const& split, std::int64_t size) override {
    auto const& all = split == "training" ? training_ : validation_;
    auto const which = random(split, all.x.size(0), size);
    auto const some = samples{all.x.index({which}), all.y.index({which})};
    return split == "training" ? samples{augmented(some.x), some.y} : some;
  }
  std::vector<samples> validation() const override {
    auto const x = validation_.x.split(250), y = validation_.y.split(250);
    auto parts = std::vector<samples>();
    for (std::size_t i = 0; i < x.size(); ++i) parts.push_back({x[i], y[i]});
    return parts;
  }

 private:
  static samples read_training(std::filesystem::path const& folder) {
    auto x = std::vector<torch::Tensor>(), y = x;
    for (auto number = 1; number <= 5; ++number) {
      auto const path = folder / fmt::format("data_batch_{}.bin", number);
      if (!std::filesystem::exists(path)) continue;
      auto const part = read_images(path);
      x.push_back(part.x);
      y.push_back(part.y);
    }
    if (x.empty()) throw std::invalid_argument(fmt::format("--data: {} has no data_batch_*.bin", folder.string()));
    return {torch::cat(x), torch::cat(y)};
  }

  torch::Tensor augmented(torch::Tensor const& x) {
    auto const down = random("training", 9, x.size(0)), right = random("training", 9, x.size(0)),
               flip = random("training", 2, x.size(0));
    auto const padded = torch::constant_pad_nd(x, {4, 4, 4, 4});
    auto result = torch::empty_like(x);
    for (std::int64_t i = 0; i < x.size(0); ++i) {
      auto const part =
          padded[i].narrow(1, down[i].item<std::int64_t>(), 32).narrow(2, right[i].item<std::int64_t>(), 32);
      result[i] = flip[i].item<std::int64_t>() == 0 ? part : part.flip(2);
    }
    return result;
  }

  samples training_, validation_;
};

}  // namespace pith_libtorch
