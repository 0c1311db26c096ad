// tests/wire/golden_test.cpp — the frozen frames of this wire version: decoded, encoded anew, and decoded without pith.
#include <pith/wire/frame.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "support/parsed.hpp"
#include "support/vectors.hpp"
#include "wire/scalar_decoder.hpp"

using namespace support;
namespace wire = pith::wire;

namespace {

std::vector<std::byte> read_file(std::filesystem::path const& path) {
  auto file = std::ifstream(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path.string());
  auto const text = std::vector<char>(std::istreambuf_iterator<char>(file), {});
  auto bytes = std::vector<std::byte>(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

std::vector<std::filesystem::path> frames() {
  auto found = std::vector<std::filesystem::path>();
  for (auto const& entry : std::filesystem::directory_iterator(std::string(PITH_TEST_DATA) + "/wire/v0")) {
    if (entry.path().extension() == ".frame") found.push_back(entry.path());
  }
  return found;
}

template <class In>
std::vector<In> values_beside(std::filesystem::path path, char const* ending) {
  auto const bytes = read_file(path.replace_extension(ending));
  auto values = std::vector<In>(bytes.size() / sizeof(In));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class In>
void agrees(std::filesystem::path const& path) {
  auto const frame = read_file(path);
  auto const h = wire::read_header(pith::span<std::byte const>(frame));
  auto const codec = pith::parse<In>(h.codec);
  auto state = pith::make_state<In>(pith::seq, codec, h.dims, h.whose);
  auto memory = std::vector<std::byte>(wire::workspace_bytes<In>(pith::seq, codec, h.dims));
  auto ws = pith::workspace<>(memory);

  auto decoded = std::vector<In>(h.dims.n);
  wire::open(pith::seq, codec, frame, decoded, state, ws);
  CHECK(same_bytes(decoded, values_beside<In>(path, ".out")));

  auto raw = scalar::bytes(frame.size());
  std::memcpy(raw.data(), frame.data(), frame.size());
  CHECK(same_bytes(scalar::decode(scalar::read(raw)), widen(decoded)));

  auto const all = values_beside<In>(path, ".in");
  auto anew = std::vector<std::byte>(frame.size());
  REQUIRE(all.size() == h.step * h.dims.n);
  for (std::size_t step = 0; step < h.step; ++step) {
    auto const x = pith::span<In const>(all).subspan(step * h.dims.n, h.dims.n);
    wire::seal(pith::seq, codec, x, pith::span<std::byte>(anew), state, ws);
  }
  CHECK(anew == frame);
}

}  // namespace

TEST_CASE("golden frames decode to their values and are what their inputs encode to") {
  for (auto const& path : frames()) {
    CAPTURE(path.string());
    auto const frame = read_file(path);
    switch (wire::read_header(pith::span<std::byte const>(frame)).element) {
      case pith::element_kind::f32: agrees<float>(path); break;
      case pith::element_kind::f64: agrees<double>(path); break;
      case pith::element_kind::f16: agrees<pith::half>(path); break;
      case pith::element_kind::bf16: agrees<pith::bfloat16>(path); break;
      default: FAIL("unknown elements");
    }
  }
}

TEST_CASE("every codec that text can say has a golden frame") {
  auto words = std::string(" ");
  auto kinds = std::set<pith::element_kind>();
  for (auto const& path : frames()) {
    auto const frame = read_file(path);
    auto const h = wire::read_header(pith::span<std::byte const>(frame));
    words.append(h.codec).append(" ");
    kinds.insert(h.element);
  }
  for (auto const* word : {"identity",       "cast<half>",  "cast<bfloat16>",  " scaled_sign ",
                           "one_bit ",       "one_bit(8)",  "one_bit(row)",    "one_bit(column)",
                           " sign ",         " sign(zero)", "summed_sign ",    "summed_sign(zero)",
                           " terngrad ",     "terngrad(0)", "summed_terngrad", "trits(",
                           "natural<8>",     "natural<9>",  "eight_bit ",      "eight_bit(",
                           "floor",          "qsgd<",       "top_k(",          "random_k(",
                           "unbiased",       "own)",        "random_blocks(",  "threshold(",
                           "dense",          "hadamard(",   "hadamard|",       " power_sgd(",
                           "damped(",        "ef(",         "bypass(",         "two_shot(",
                           "one_sided_",     "ok_top_k(",   " g_top_k(",       " ring(",
                           " hierarchical(", " redsync(",   "redsync_mean(",   " sidco(",
                           "gamma",          "pareto",      " gaussian_k(",    "fine"}) {
    CAPTURE(word);
    CHECK(words.find(word) != std::string::npos);
  }
  CHECK(kinds.size() == 4);
}

TEST_CASE("the independent decoder notices a changed payload") {
  auto const file = read_file(std::string(PITH_TEST_DATA) + "/wire/v0/qsgd8.frame");
  auto raw = scalar::bytes(file.size());
  std::memcpy(raw.data(), file.data(), file.size());
  auto const whole = scalar::decode(scalar::read(raw));
  raw[88] ^= 1;  // the first symbol
  CHECK(!same_bytes(scalar::decode(scalar::read(raw)), whole));
}
