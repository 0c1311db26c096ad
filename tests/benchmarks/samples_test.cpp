// tests/benchmarks/samples_test.cpp — the samples are what their names say, and the gradients are those of the models.
#include "../../benchmarks/samples.hpp"

#include <pith/core/checksum.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <span>

namespace {

auto const data = std::string(PITH_TEST_DATA) + "/gradients";

double moment(std::vector<float> const& x, int power) {
  double sum = 0;
  for (auto const v : x) sum += std::pow(std::abs(static_cast<double>(v)), power);
  return sum / static_cast<double>(x.size());
}

auto checksum_of(std::vector<float> const& x) { return pith::checksum(std::as_bytes(std::span<float const>(x))); }

}  // namespace

TEST_CASE("gradients have the values and shapes that were saved") {
  auto const resnet = support::read_gradients(data + "/resnet20"), lstm = support::read_gradients(data + "/lstm");
  CHECK(resnet.values.size() == 272'474);
  CHECK(resnet.tensors.size() == 65);
  CHECK(resnet.tensors[0].name == "conv1.weight");
  CHECK(resnet.tensors[0].dims == pith::shape{16 * 27, 16});
  CHECK(resnet.tensors[1].dims == pith::shape{16, 1});
  CHECK(resnet.tensors[64].name == "fc.bias");
  CHECK(lstm.values.size() == 536'992);
  CHECK(lstm.tensors.size() == 10);
  CHECK(lstm.tensors[0].dims == pith::shape{4000 * 96, 4000});
  // By tests/wire/decode.py, of the values as they were saved.
  CHECK(checksum_of(resnet.values) == 0x017c8c191b45468b);
  CHECK(checksum_of(lstm.values) == 0x3df4894b8b57eeac);
  CHECK(std::count(lstm.values.begin(), lstm.values.end(), 0.0f) == 361'594);
}

TEST_CASE("read_gradients refuses a missing file, and shape_of reads shapes and refuses an empty text") {
  CHECK_THROWS_WITH_AS(support::read_gradients("nothing"), "nothing.npy: cannot be opened", std::runtime_error);
  CHECK_THROWS_AS(support::shape_of(""), std::runtime_error);
  CHECK(support::shape_of("7") == pith::shape{7, 1});
  CHECK(support::shape_of("5x4x3") == pith::shape{60, 5});
}

TEST_CASE("every sample fills its tensors and has a mean square of 1") {
  for (auto const& s : bench::all_samples(12, data)) {
    CAPTURE(s.name);
    std::uint64_t n = 0;
    for (auto const& dims : s.tensors) n += dims.n;
    CHECK(n == s.values.size());
    // Each value is rounded to float: 2^-24 of itself, twice that of its square.
    CHECK(std::abs(moment(s.values, 2) - 1) <= 0x1p-22);
  }
}

TEST_CASE("the distributions have their fourth moments") {
  // Of mean square 1: 3, 6, and of z^3 / sqrt(15) 10395 / 15^2. Five standard errors of a mean of n fourth powers are
  // 5 sqrt(m8 / n), m8 being 105, 2520 and 3.2e11 / 15^4; those of the square that they are divided by are fewer.
  auto const n = static_cast<double>(1 << 20);
  auto const samples = bench::all_samples(20, data);
  double const fourth[] = {3, 6, 46.2}, eighth[] = {105, 2520, 6.2e6};
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(samples[i].name);
    CHECK(std::abs(moment(samples[i].values, 4) - fourth[i]) <= 10 * std::sqrt(eighth[i] / n));
  }
}
