// tests/vector_quantize/pca_series_test.cpp — a basis learnt from gradients of training, and the gradients of later steps.
#include <pith/vector_quantize/pca.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/gradients.hpp"
#include "support/roundtrip.hpp"

using namespace support;
using pith::bfloat16;
using pith::pca_basis;

namespace {

using series = std::vector<std::vector<bfloat16>>;

/// Bases are made of steps 150 to 204 and meet 205 to 259.
constexpr std::size_t learnt = 55;

series const& captured() {
  static auto const read = read_series(std::string(PITH_TEST_DATA) + "/gradients/resnet20_series.bf16");
  REQUIRE(read.size() == 110);
  return read;
}

/// The same with its coordinates shuffled, alike in all steps.
series shuffled() {
  auto const& steps = captured();
  auto place = std::vector<std::size_t>(steps[0].size());
  std::iota(place.begin(), place.end(), std::size_t{0});
  auto random = std::mt19937_64(17);
  for (auto i = place.size(); i > 1; --i) std::swap(place[i - 1], place[random() % i]);
  auto moved = steps;
  for (std::size_t t = 0; t < moved.size(); ++t) {
    for (std::size_t i = 0; i < place.size(); ++i) moved[t][i] = steps[t][place[i]];
  }
  return moved;
}

struct kept_energy {
  std::uint64_t components;
  double fitted, later;
};

kept_energy kept(series const& of, std::uint64_t slice, pith::pca_options const& options, pith::slice_order order = {},
                 pith::sampled which = pith::sampled::all_slices) {
  auto samples = pith::slice_samples<float>(of[0].size(), slice, order, which);
  for (std::size_t t = 0; t < learnt; ++t) samples.add(pith::span<bfloat16 const>(of[t]));
  auto codec = trial<float, pith::pca<>>(pith::pca(pca_basis::fit(samples, options)), {of[0].size()});
  double all[2] = {}, lost[2] = {};
  for (std::size_t t = 0; t < of.size(); ++t) {
    auto const x = widen(of[t]);
    all[t >= learnt] += square(x);
    lost[t >= learnt] += square(minus(x, widen(codec.roundtrip(narrow<float>(x)))));
  }
  return {codec.codec().basis().components(), 1 - lost[0] / all[0], 1 - lost[1] / all[1]};
}

constexpr auto conv = pith::conv_shape{32, 32, 3, 3};

}  // namespace

TEST_CASE("an eighth of the numbers keeps four fifths of the energy of later steps, in either order") {
  auto const native = kept(captured(), 512, {.components = 64});
  auto const places = kept(captured(), 1024, {.components = 128}, conv.order());
  MESSAGE("OIHW, K 512, d 64: ", native.later, " of what comes later, ", native.fitted, " of what it saw");
  MESSAGE("HWIO, K 1024, d 128: ", places.later, " of what comes later, ", places.fitted, " of what it saw");
  CHECK(native.components == 64);
  CHECK(native.later >= 0.81);
  CHECK(places.components == 128);
  CHECK(places.later >= 0.80);
}

TEST_CASE("a basis with a shared mean keeps as much energy, and lambda 0.01 takes more than 200 directions") {
  auto const shared = kept(captured(), 512, {.components = 64, .about = pith::centring::shared});
  auto const all = kept(captured(), 512, {.lambda = 0.01});
  MESSAGE("OIHW, K 512, d 64, one mean: ", shared.later, ", ", shared.fitted);
  MESSAGE("OIHW, K 512, lambda 0.01: d ", all.components, ", ", all.later, ", ", all.fitted);
  CHECK(shared.later >= 0.81);
  CHECK(all.components > 200);
  CHECK(all.later >= 0.96);
}

TEST_CASE("a basis for shuffled coordinates keeps less than half of the energy of later steps") {
  auto const mixed = kept(shuffled(), 512, {.components = 64});
  MESSAGE("shuffled, K 512, d 64: ", mixed.later, ", ", mixed.fitted);
  CHECK(mixed.later <= 0.45);
}

TEST_CASE("the first slice alone says less of the others, whatever lambda: samples bound the directions") {
  auto const first = kept(captured(), 1024, {.lambda = 0.01}, conv.order(), pith::sampled::first_slice);
  MESSAGE("HWIO, K 1024, first slices, lambda 0.01: d ", first.components, ", ", first.later, ", ", first.fitted);
  CHECK(first.components <= learnt - 1);
  CHECK(first.later < 0.70);
}
