// tests/codec/compressor_test.cpp — the owning compressor makes the bytes of the verbs, and allocates once.
#include <pith/codec/compressor.hpp>
#include <pith/exec/par.hpp>
#include <pith/pith.hpp>

#include <doctest/doctest.h>

#include "support/allocations.hpp"
#include "support/vectors.hpp"

#include <array>
#include <stdexcept>
#include <type_traits>
#include <vector>

using namespace support;

namespace {

auto const codec = pith::error_feedback(pith::top_k(0.1) | pith::qsgd<8>());
constexpr pith::tensor_id owner{0x5eed, 3, 1};

/// The payloads of three steps, by the verbs.
template <class In>
std::vector<std::byte> by_verbs(std::vector<In> const& x) {
  auto const dims = pith::vector(x.size());
  auto state = pith::make_state<In>(pith::seq, codec, dims, owner);
  auto payload = std::vector<std::byte>(pith::payload_bytes<In>(codec, dims));
  auto memory = std::vector<std::byte>(pith::workspace_bytes<In>(pith::seq, codec, dims));
  auto ws = pith::workspace<>(memory);
  auto all = std::vector<std::byte>();
  for (int step = 0; step < 3; ++step) {
    pith::compress(pith::seq, codec, x, pith::span<std::byte>(payload), state, ws);
    all.insert(all.end(), payload.begin(), payload.end());
  }
  return all;
}

template <class Compressor, class In>
std::vector<std::byte> three_steps(Compressor&& c, std::vector<In> const& x) {
  auto all = std::vector<std::byte>();
  for (int step = 0; step < 3; ++step) {
    auto const payload = c.compress(x);
    all.insert(all.end(), payload.begin(), payload.end());
  }
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("a compressor makes the payloads of the verbs", In, float, double, pith::half, pith::bfloat16) {
  auto pool = pith::thread_pool(2);
  for (std::size_t const n : {0u, 1u, 7u, 1001u}) {
    auto const x = narrow<In>(normal_vector(n, 5));
    auto const dims = pith::vector(n);
    CAPTURE(n);
    CHECK(three_steps(pith::make_compressor<In>(pith::seq, codec, dims, owner), x) == by_verbs(x));
    CHECK(three_steps(pith::compressor<In>(codec, dims, owner), x) == by_verbs(x));
    CHECK(three_steps(pith::make_compressor<In>(pith::par_executor(pool), codec, dims, owner), x) == by_verbs(x));
    CHECK(three_steps(pith::compressor<In>(pith::seq, codec, dims, owner), x) == by_verbs(x));
  }
}

TEST_CASE("a compressor decodes its own payload and those of other ranks") {
  auto const x = narrow<float>(normal_vector(100, 6));
  auto sender = pith::compressor<float>(pith::qsgd<8>(), pith::vector(100), owner);
  auto receiver = pith::compressor<float>(pith::qsgd<8>(), pith::vector(100), {0x5eed, 3, 2});
  auto mine = std::vector<float>(100), theirs = mine;
  auto const payload = sender.compress(x);
  receiver.compress(mine);  // ranks are in the same step
  sender.decompress(payload, mine);
  receiver.decompress(payload, theirs, owner.rank);
  CHECK(mine == theirs);
  CHECK(sender.payload().data() == payload.data());
}

TEST_CASE("a compressor allocates in its constructor only") {
  auto const x = narrow<float>(normal_vector(1000, 7));
  auto y = x;
  auto c = pith::compressor<float>(codec, pith::vector(1000));
  auto const before = allocations.load();
  for (int step = 0; step < 3; ++step) c.decompress(c.compress(x), y);
  CHECK(allocations.load() == before);
}

TEST_CASE("a moved compressor goes on") {
  auto const x = narrow<float>(normal_vector(50, 8));
  auto a = pith::compressor<float>(codec, pith::vector(50)), b = pith::compressor<float>(codec, pith::vector(50));
  a.compress(x);
  b.compress(x);
  auto moved = std::move(a);
  auto const after = moved.compress(x), expected = b.compress(x);
  CHECK(std::vector(after.begin(), after.end()) == std::vector(expected.begin(), expected.end()));
  static_assert(!std::is_copy_constructible_v<decltype(moved)>);
}

TEST_CASE("spans of other sizes are refused, and change nothing") {
  auto const x = narrow<float>(normal_vector(50, 9));
  auto y = std::vector<float>(49);
  auto c = pith::compressor<float>(codec, pith::vector(50)), same = pith::compressor<float>(codec, pith::vector(50));
  CHECK_THROWS_WITH_AS(c.compress(y), "pith::compress: x must have 50 elements, got 49", std::invalid_argument);
  auto const payload = c.compress(x), expected = same.compress(x);
  CHECK(std::vector(payload.begin(), payload.end()) == std::vector(expected.begin(), expected.end()));
  CHECK_THROWS_WITH_AS(c.decompress(payload, y), "pith::decompress: x must have 50 elements, got 49",
                       std::invalid_argument);
  CHECK_THROWS_AS(c.decompress(payload.first(3), y), std::invalid_argument);
}

TEST_CASE_TEMPLATE("a compressor resumes from a saved state with the same bytes", In, float, double, pith::half,
                   pith::bfloat16) {
  auto pool = pith::thread_pool(2);
  for (std::size_t const n : {0u, 1u, 1001u}) {
    CAPTURE(n);
    auto const x = narrow<In>(normal_vector(n, 10));
    auto const dims = pith::vector(n);
    auto saver = pith::make_compressor<In>(pith::seq, codec, dims, owner);
    three_steps(saver, x);
    auto const saved = saver.export_state();
    auto const expected = three_steps(saver, x);
    auto const resumed = [&](auto other) {
      other.import_state(saved);
      CHECK(other.export_state() == saved);
      return three_steps(other, x);
    };
    CHECK(resumed(pith::make_compressor<In>(pith::seq, codec, dims, owner)) == expected);
    CHECK(resumed(pith::make_compressor<In>(pith::par_executor(pool), codec, dims, owner)) == expected);
    CHECK(resumed(pith::compressor<In>(codec, dims, owner)) == expected);
    CHECK(resumed(std::move(saver)) == expected);
  }
}

TEST_CASE("a state of another compressor and a damaged state are refused, and change nothing") {
  auto const dims = pith::matrix(5, 10);
  auto const x = narrow<float>(normal_vector(50, 11));
  auto c = pith::compressor<float>(codec, dims, owner), same = pith::compressor<float>(codec, dims, owner);
  three_steps(c, x);
  three_steps(same, x);
  auto const refuses = [&](auto&& other, char const* message) {
    CHECK_THROWS_WITH_AS(c.import_state(other.export_state()), doctest::Contains(message), std::invalid_argument);
  };
  refuses(pith::compressor<float>(pith::error_feedback(pith::top_k(0.2)), dims, owner), "ef(top_k(0.2))");
  refuses(pith::compressor<float>(codec, pith::matrix(10, 5), owner), "50 elements in 10 rows");
  CHECK_THROWS_WITH_AS(c.import_state(pith::compressor<float>(codec, dims, {owner.seed, 3, 2}).export_state()),
                       "pith::compressor::import_state: the state must be of rank 1, got one of rank 2: each rank "
                       "saves its own state and imports its own state",
                       std::invalid_argument);
  refuses(pith::compressor<float>(codec, dims, {1, 3, 1}), "got one of seed 1");
  refuses(pith::compressor<float>(codec, dims, {owner.seed, 4, 1}), "got one of tensor 4");
  refuses(pith::compressor<double>(codec, dims, owner), "elements of float, got one of elements of double");
  auto const saved = c.export_state();
  for (std::size_t i = 0; i < saved.size(); ++i) {
    auto damaged = saved;
    damaged[i] ^= std::byte{0x10};
    CHECK_THROWS_AS(c.import_state(damaged), std::invalid_argument);
    CHECK_THROWS_AS(c.import_state(pith::span<std::byte const>(saved).first(i)), std::invalid_argument);
  }
  CHECK(three_steps(c, x) == three_steps(same, x));
}

TEST_CASE("a line break in the name of a codec adds no line to a saved state") {
  struct named : pith::identity {
    std::string name() const { return "a\nfield share float 3 places 1 granule 0"; }
  };
  auto c = pith::compressor<float>(named(), pith::vector(3));
  auto const saved = c.export_state();
  auto const words = std::string(reinterpret_cast<char const*>(saved.data()), saved.size());
  CHECK(words.find("codec a\\nfield share") != std::string::npos);
  c.import_state(saved);
}

TEST_CASE("shapes of vectors and matrices") {
  CHECK(pith::vector(7) == pith::shape{7});
  CHECK(pith::matrix(3, 5) == pith::shape{15, 3});
  CHECK(pith::matrix(3, 5).columns() == 5);
  CHECK(pith::matrix(0, 5) == pith::shape{0, 0});
  CHECK(pith::matrix(5, 0) == pith::shape{0, 5});
  constexpr auto large = std::uint64_t{1} << 32;
  CHECK(pith::matrix(large, large - 1).n == large * (large - 1));
  CHECK_THROWS_WITH_AS(pith::matrix(large, large),
                       "pith::matrix: rows x columns must be below 2^64, got 4294967296 x 4294967296",
                       std::invalid_argument);
}

TEST_CASE("any contiguous range is a span, but no other range and no temporary container") {
  float array[3] = {1, 2, 3};
  CHECK(pith::span(array).size() == 3);
  CHECK(pith::span<float const>(std::array<float, 2>{1, 2}).size() == 2);
  static_assert(std::is_convertible_v<std::vector<float>&, pith::span<float>>);
  static_assert(std::is_convertible_v<std::span<float>, pith::span<float>>);
  static_assert(std::is_convertible_v<std::vector<float>, pith::span<float const>>);
  static_assert(!std::is_convertible_v<std::vector<float>, pith::span<float>>);
  static_assert(!std::is_convertible_v<std::vector<float> const&, pith::span<float>>);
  static_assert(!std::is_convertible_v<std::vector<double>&, pith::span<float>>);
  static_assert(!std::is_convertible_v<std::vector<bool>&, pith::span<bool>>);
  static_assert(!std::is_convertible_v<std::vector<float>&, pith::device_span<float>>);
}
