// tests/examples/dataset_test.cpp — what the example reads from files, and what it says of broken ones.
#include "../../examples/train/dataset.hpp"
#include "../../examples/train/load.hpp"

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using train::bytes;

fs::path const data = fs::path(__FILE__).parent_path() / "../../examples/train/data";

/// A directory that ends with the test.
class temporary {
 public:
  temporary() : directory_(fs::temp_directory_path() / ("pith_dataset_test_" + std::to_string(getpid()))) {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
  }
  temporary(temporary const&) = delete;
  ~temporary() { fs::remove_all(directory_); }

  fs::path const& path() const { return directory_; }

  void write(std::string const& name, bytes const& content) const {
    std::ofstream file(directory_ / name, std::ios::binary);
    file.write(reinterpret_cast<char const*>(content.data()), static_cast<std::streamsize>(content.size()));
  }

  void write(std::string const& name, std::string const& content) const {
    write(name, bytes(content.begin(), content.end()));
  }

  void write_gz(std::string const& name, bytes const& content) const {
    auto const file = gzopen((directory_ / name).c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
  }

 private:
  fs::path directory_;
};

bytes idx(std::vector<std::uint8_t> const& sizes, bytes const& values) {
  bytes file{0, 0, 8, static_cast<std::uint8_t>(sizes.size())};
  for (auto size : sizes) file.insert(file.end(), {0, 0, 0, size});
  file.insert(file.end(), values.begin(), values.end());
  return file;
}

/// Two training images of 2 x 3 and a test image, with three classes.
void write_small_idx(temporary const& directory) {
  directory.write("train-images-idx3-ubyte", idx({2, 2, 3}, {0, 51, 102, 153, 204, 255, 255, 204, 153, 102, 51, 0}));
  directory.write("train-labels-idx1-ubyte", idx({2}, {1, 0}));
  directory.write("t10k-images-idx3-ubyte", idx({1, 2, 3}, {255, 255, 255, 0, 0, 0}));
  directory.write("t10k-labels-idx1-ubyte", idx({1}, {2}));
}

/// Records of CIFAR-10 with one label; red, green and blue rise by 1, 2 and 3 from pixel to pixel.
bytes cifar(std::uint8_t label, std::size_t images) {
  bytes record{label};
  for (std::size_t channel = 1; channel <= 3; ++channel)
    for (std::size_t pixel = 0; pixel < 1024; ++pixel) record.push_back(static_cast<std::uint8_t>(channel * pixel));
  bytes file;
  for (std::size_t i = 0; i < images; ++i) file.insert(file.end(), record.begin(), record.end());
  return file;
}

std::string digit_line(std::string const& pixel, std::string const& label) {
  std::string line;
  for (int i = 0; i < 64; ++i) line += pixel + ",";
  return line + label + "\n";
}

/// What loading the directory throws.
std::string complaint(fs::path const& directory) {
  try {
    train::load(directory);
  } catch (std::runtime_error const& error) {
    return error.what();
  }
  return "nothing thrown";
}

#define CHECK_COMPLAINT(directory, file, text) \
  CHECK(complaint((directory).path()) == "train: " + ((directory).path() / (file)).string() + ": expected " + (text))

}  // namespace

TEST_CASE("digits has 1797 images of ten classes") {
  auto const digits = train::load_digits(data / "digits.csv");
  CHECK(digits.size() == 1797);
  CHECK(digits.shape == train::image_shape{8, 8, 1});
  std::vector<int> counts(10);
  for (auto label : digits.labels) ++counts[static_cast<std::size_t>(label)];
  CHECK(counts == std::vector{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
  CHECK(std::ranges::min(digits.images) == 0.0f);
  CHECK(std::ranges::max(digits.images) == 1.0f);
  CHECK(digits.images[2] == 5.0f / 16.0f);
  CHECK(digits.labels[0] == 0);
}

TEST_CASE("a fifth of the digits is for the test") {
  auto const digits = train::load(data);
  CHECK(digits.train.size() == 1437);
  CHECK(digits.test.size() == 360);
}

TEST_CASE("each image is in the test of one fold") {
  constexpr std::size_t n = 13, folds = 5;
  train::dataset all{std::vector<float>(n), std::vector<int>(n), {1, 1, 1}, n};
  std::iota(all.labels.begin(), all.labels.end(), 0);
  std::iota(all.images.begin(), all.images.end(), 0.0f);
  std::multiset<int> tested;
  for (std::size_t i = 0; i < folds; ++i) {
    auto const part = train::fold(all, i, folds);
    CHECK((part.test.size() == 2 || part.test.size() == 3));
    std::multiset<int> labels(part.train.labels.begin(), part.train.labels.end());
    labels.insert(part.test.labels.begin(), part.test.labels.end());
    CHECK(labels == std::multiset<int>(all.labels.begin(), all.labels.end()));
    CHECK(part.test.images[0] == static_cast<float>(part.test.labels[0]));
    tested.insert(part.test.labels.begin(), part.test.labels.end());
  }
  CHECK(tested == std::multiset<int>(all.labels.begin(), all.labels.end()));
  CHECK_THROWS_AS(train::fold(all, 5, 5), std::invalid_argument);
}

TEST_CASE("a permutation is the same everywhere") {
  using order = std::vector<std::size_t>;  // computed apart, from the standard's words on seed_seq and mt19937_64
  CHECK(train::permutation(8, train::make_generator(1)) == order{7, 6, 0, 5, 2, 3, 1, 4});
  CHECK(train::permutation(8, train::make_generator(1, 1)) == order{4, 6, 1, 3, 0, 7, 2, 5});
}

TEST_CASE("IDX files give the images that were written") {
  temporary const directory;
  write_small_idx(directory);
  auto const [training, test] = train::load(directory.path());
  CHECK(training.shape == train::image_shape{2, 3, 1});
  CHECK(training.classes == 3);
  CHECK(test.classes == 3);
  CHECK(training.labels == std::vector{1, 0});
  CHECK(test.labels == std::vector{2});
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(training.images[i] == static_cast<float>(51 * i) / 255.0f);
    CHECK(training.images[6 + i] == static_cast<float>(51 * (5 - i)) / 255.0f);
  }
}

TEST_CASE("IDX files may be packed by gzip") {
  temporary const directory;
  write_small_idx(directory);
  fs::remove(directory.path() / "train-images-idx3-ubyte");
  directory.write_gz("train-images-idx3-ubyte.gz", idx({2, 2, 3}, bytes(12, 255)));
  CHECK(std::ranges::min(train::load(directory.path()).train.images) == 1.0f);
}

TEST_CASE("broken IDX files are refused") {
  temporary const directory;
  write_small_idx(directory);
  auto const images = "train-images-idx3-ubyte", labels = "train-labels-idx1-ubyte";
  SUBCASE("magic number") {
    directory.write(images, idx({2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    CHECK_COMPLAINT(directory, images, "magic number 2051, found 2049");
  }
  SUBCASE("short head") {
    directory.write(images, bytes{0, 0, 8, 3, 0});
    CHECK_COMPLAINT(directory, images, "16 bytes or more, found 5");
  }
  SUBCASE("missing values") {
    directory.write(images, idx({2, 2, 3}, bytes(11)));
    CHECK_COMPLAINT(directory, images, "2 x 2 x 3 bytes and a head, found 27 bytes");
  }
  SUBCASE("sizes whose product is no 64-bit number") {
    directory.write(images, bytes{0, 0, 8, 3, 0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 4});
    CHECK_COMPLAINT(directory, images, "2147483648 x 2147483648 x 4 bytes and a head, found 16 bytes");
  }
  SUBCASE("no image") {
    directory.write(images, idx({0, 2, 3}, {}));
    CHECK_COMPLAINT(directory, images, "sizes of at least 1, found 0 x 2 x 3");
  }
  SUBCASE("another number of labels") {
    directory.write(labels, idx({3}, {1, 0, 2}));
    CHECK(complaint(directory.path()).ends_with("expected 2 labels of train images, found 3"));
  }
  SUBCASE("another size of the test images") {
    directory.write("t10k-images-idx3-ubyte", idx({1, 3, 2}, bytes(6)));
    CHECK(complaint(directory.path()).ends_with("expected images of one size, found two sizes"));
  }
  SUBCASE("missing file") {
    fs::remove(directory.path() / labels);
    CHECK_COMPLAINT(directory, "train-labels-idx1-ubyte.gz", "a file, found none that can be opened");
  }
  SUBCASE("cut gzip stream") {
    bytes values(60000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * i >> 3);
    directory.write_gz("whole.gz", values);
    fs::rename(directory.path() / "whole.gz", directory.path() / images);
    fs::resize_file(directory.path() / images, fs::file_size(directory.path() / images) / 2);
    CHECK(complaint(directory.path()).find(": expected a readable file, found ") != std::string::npos);
  }
}

TEST_CASE("CIFAR-10 files give interleaved channels") {
  temporary const directory;
  directory.write("data_batch_1.bin", cifar(3, 2));
  directory.write("data_batch_4.bin", cifar(7, 1));
  directory.write("test_batch.bin", cifar(9, 1));
  auto const [training, test] = train::load(directory.path());
  CHECK(training.shape == train::image_shape{32, 32, 3});
  CHECK(training.labels == std::vector{3, 3, 7});
  CHECK(test.labels == std::vector{9});
  auto const third = training.pixels(2, 1);
  CHECK(third[0] == 0.0f);
  for (std::size_t channel = 0; channel < 3; ++channel)
    CHECK(third[3 * 40 + channel] == static_cast<float>(40 * (channel + 1)) / 255.0f);
}

TEST_CASE("broken CIFAR-10 files are refused") {
  temporary const directory;
  directory.write("test_batch.bin", cifar(9, 1));
  CHECK(complaint(directory.path()).ends_with("expected data_batch_1.bin, found no such file"));
  directory.write("data_batch_2.bin", bytes(3072));
  CHECK_COMPLAINT(directory, "data_batch_2.bin", "records of 3073 bytes, found 3072 bytes");
  directory.write("data_batch_2.bin", bytes());
  CHECK_COMPLAINT(directory, "data_batch_2.bin", "records of 3073 bytes, found 0 bytes");
  directory.write("data_batch_2.bin", cifar(10, 1));
  CHECK_COMPLAINT(directory, "data_batch_2.bin", "a label in [0, 9], found 10");
}

TEST_CASE("broken digits are refused") {
  temporary const directory;
  auto const good = digit_line("16", "9");
  auto const file = "digits.csv";
  directory.write(file, good + "1,2,3\n");
  CHECK_COMPLAINT(directory, file, "65 integers in line 2, found 3");
  directory.write(file, good + digit_line("1", "x"));
  CHECK_COMPLAINT(directory, file, "65 integers in line 2, found 64");
  directory.write(file, digit_line("1", "2.5") + good);
  CHECK_COMPLAINT(directory, file, "65 integers in line 1, found 64");
  directory.write(file, digit_line("17", "2"));
  CHECK_COMPLAINT(directory, file, "values in [0, 16] in line 1, found 17");
  directory.write(file, digit_line("-1", "2"));
  CHECK_COMPLAINT(directory, file, "values in [0, 16] in line 1, found -1");
  directory.write(file, digit_line("1", "10"));
  CHECK_COMPLAINT(directory, file, "a label in [0, 9] in line 1, found 10");
  directory.write(file, std::string());
  CHECK_COMPLAINT(directory, file, "lines of 65 integers, found none");
  CHECK_THROWS_AS(train::load_digits(directory.path() / "missing.csv"), std::runtime_error);
}

TEST_CASE("a directory without known files is refused") {
  temporary const directory;
  CHECK(complaint(directory.path()) ==
        "train: " + directory.path().string() +
            ": expected digits.csv, train-images-idx3-ubyte[.gz] or test_batch.bin, found none of them");
}
