// examples/train/load.hpp — reads labelled images: digits.csv, IDX files (MNIST and its kin) or CIFAR-10's.
#pragma once

#include "dataset.hpp"

#include <zlib.h>
#include <range/v3/view/chunk.hpp>
#include <range/v3/view/drop.hpp>
#include <range/v3/view/zip.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace train {

using bytes = std::vector<unsigned char>;
using std::filesystem::path;

[[noreturn]] inline void fail(path const& file, std::string const& expected, std::string const& found) {
  throw std::runtime_error("train: " + file.string() + ": expected " + expected + ", found " + found);
}

/// The content of a file, unpacked if it is gzip's.
inline bytes read_bytes(path const& name) {
  std::unique_ptr<gzFile_s, int (*)(gzFile)> const file(gzopen(name.c_str(), "rb"), &gzclose);
  if (!file) fail(name, "a file", "none that can be opened");
  bytes content;
  std::array<unsigned char, 1 << 16> chunk;
  for (int n; (n = gzread(file.get(), chunk.data(), chunk.size())) > 0;)
    content.insert(content.end(), chunk.begin(), chunk.begin() + n);
  int code = Z_OK;
  std::string const message = gzerror(file.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END) fail(name, "a readable file", message);
  return content;
}

/// Images of one byte per value; `white` becomes 1.
inline std::vector<float> scaled(bytes const& values, float white) {
  std::vector<float> pixels(values.size());
  std::ranges::transform(values, pixels.begin(), [&](unsigned char x) { return static_cast<float>(x) / white; });
  return pixels;
}

// ---- digits: for each image of 8 x 8 a line of 64 values in [0, 16] and the label -----------------------------------

/// The integers of a comma-separated line, up to the first cell that is not an integer.
inline std::vector<int> integers(std::string const& line) {
  std::vector<int> values;
  char const* const end = line.data() + line.size();
  for (char const* cell = line.data(); cell < end;) {
    int value = 0;
    auto const [next, error] = std::from_chars(cell, end, value);
    if (error != std::errc{} || (next != end && *next != ',')) break;
    values.push_back(value);
    cell = next + 1;
  }
  return values;
}

inline std::vector<int> digit(std::string const& line, path const& file, std::size_t number) {
  auto const values = integers(line);
  auto const where = " in line " + std::to_string(number);
  if (values.size() != 65) fail(file, "65 integers" + where, std::to_string(values.size()));
  auto const [low, high] = std::minmax_element(values.begin(), values.end() - 1);
  if (*low < 0 || *high > 16) fail(file, "values in [0, 16]" + where, std::to_string(*low < 0 ? *low : *high));
  if (values[64] < 0 || values[64] > 9) fail(file, "a label in [0, 9]" + where, std::to_string(values[64]));
  return values;
}

/// The handwritten digits of data/digits.csv.
inline dataset load_digits(path const& name) {
  std::ifstream file(name);
  if (!file) fail(name, "a file", "none that can be opened");
  dataset digits{{}, {}, {8, 8, 1}, 10};
  bytes values;
  for (std::string line; std::getline(file, line);) {
    auto const row = digit(line, name, digits.size() + 1);
    std::transform(row.begin(), row.end() - 1, std::back_inserter(values), [](int x) { return std::uint8_t(x); });
    digits.labels.push_back(row.back());
  }
  if (values.empty()) fail(name, "lines of 65 integers", "none");
  digits.images = scaled(values, 16);
  return digits;
}

// ---- IDX: a magic number and the size of each dimension, as big-endian words of 32 bits, then bytes -----------------

struct idx {
  std::vector<std::size_t> sizes;
  bytes values;
};

inline std::uint32_t big_endian(unsigned char const* word) {
  return std::uint32_t{word[0]} << 24 | std::uint32_t{word[1]} << 16 | std::uint32_t{word[2]} << 8 | word[3];
}

/// The sizes that the head of an IDX file of unsigned bytes gives, if the file agrees with them.
inline std::vector<std::size_t> idx_sizes(path const& file, bytes const& content, std::size_t dimensions) {
  auto const n = content.size(), head = 4 * (1 + dimensions), magic = 0x800 + dimensions;
  if (n < head) fail(file, std::to_string(head) + " bytes or more", std::to_string(n));
  auto const found = big_endian(content.data());
  if (found != magic) fail(file, "magic number " + std::to_string(magic), std::to_string(found));
  std::vector<std::size_t> sizes;
  std::string product;
  double length = 1;  // the sizes of a broken head may have a product of more than 64 bits
  for (std::size_t i = 4; i < head; i += 4) {
    sizes.push_back(big_endian(content.data() + i));
    length *= static_cast<double>(sizes.back());
    product += (i == 4 ? "" : " x ") + std::to_string(sizes.back());
  }
  if (length == 0) fail(file, "sizes of at least 1", product);
  if (length != static_cast<double>(n - head)) fail(file, product + " bytes and a head", std::to_string(n) + " bytes");
  return sizes;
}

/// The file `name` of a directory or, where there is none, `name`.gz.
inline idx read_idx(path const& directory, std::string const& name, std::size_t dimensions) {
  auto const file = exists(directory / name) ? directory / name : directory / (name + ".gz");
  auto const content = read_bytes(file);
  auto const sizes = idx_sizes(file, content, dimensions);
  auto const head = static_cast<std::ptrdiff_t>(4 * (1 + dimensions));
  return {sizes, bytes(content.begin() + head, content.end())};
}

/// The images and labels of IDX files whose names begin with `part`, which is train or t10k.
inline dataset load_idx(path const& directory, std::string const& part) {
  auto const images = read_idx(directory, part + "-images-idx3-ubyte", 3);
  auto const labels = read_idx(directory, part + "-labels-idx1-ubyte", 1);
  auto const n = images.sizes[0];
  if (labels.sizes[0] != n)
    fail(directory, std::to_string(n) + " labels of " + part + " images", std::to_string(labels.sizes[0]));
  auto const classes = 1 + *std::max_element(labels.values.begin(), labels.values.end());
  return {scaled(images.values, 255),
          {labels.values.begin(), labels.values.end()},
          {images.sizes[1], images.sizes[2], 1},
          classes};
}

inline split load_idx(path const& directory) {
  split data{load_idx(directory, "train"), load_idx(directory, "t10k")};
  if (data.train.shape != data.test.shape) fail(directory, "images of one size", "two sizes");
  data.train.classes = data.test.classes = std::max(data.train.classes, data.test.classes);
  return data;
}

// ---- CIFAR-10: for each image of 32 x 32 the label, then its red, green and blue bytes ------------------------------

inline void append_cifar(dataset& data, bytes& values, path const& name) {
  constexpr std::size_t plane = 32 * 32, record = 1 + 3 * plane;
  auto const file = read_bytes(name);
  if (file.empty() || file.size() % record != 0)
    fail(name, "records of " + std::to_string(record) + " bytes", std::to_string(file.size()) + " bytes");
  for (auto const image : ranges::views::chunk(file, record)) {
    if (image[0] > 9) fail(name, "a label in [0, 9]", std::to_string(image[0]));
    data.labels.push_back(image[0]);
    auto const planes = image | ranges::views::drop(1) | ranges::views::chunk(plane);
    for (auto const& [red, green, blue] : ranges::views::zip(planes[0], planes[1], planes[2]))
      values.insert(values.end(), {red, green, blue});
  }
}

inline dataset read_cifar(std::vector<path> const& files) {
  dataset data{{}, {}, {32, 32, 3}, 10};
  bytes values;
  for (auto const& file : files) append_cifar(data, values, file);
  data.images = scaled(values, 255);
  return data;
}

/// Trains on those of the five training files that exist.
inline split load_cifar(path const& directory) {
  std::vector<path> files;
  for (char i = '1'; i <= '5'; ++i)
    if (auto file = directory / (std::string("data_batch_") + i + ".bin"); exists(file)) files.push_back(file);
  if (files.empty()) fail(directory, "data_batch_1.bin", "no such file");
  return {read_cifar(files), read_cifar({directory / "test_batch.bin"})};
}

// ---- any of them ----------------------------------------------------------------------------------------------------

/// The images in a directory, recognised by the names of the files. The digits come as one set, so a fifth is the test.
inline split load(path const& directory) {
  auto const has = [&](char const* name) { return exists(directory / name); };
  if (has("digits.csv")) return fold(load_digits(directory / "digits.csv"), 4, 5);
  if (has("train-images-idx3-ubyte") || has("train-images-idx3-ubyte.gz")) return load_idx(directory);
  if (has("test_batch.bin")) return load_cifar(directory);
  fail(directory, "digits.csv, train-images-idx3-ubyte[.gz] or test_batch.bin", "none of them");
}

}  // namespace train
