// tests/core/workspace_test.cpp — taking, giving back, running out.
#include <pith/core/buffer.hpp>
#include <pith/core/workspace.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace {

struct alignas(128) aligned_bytes {
  std::byte bytes[1024];
};

bool is_aligned(void const* p) { return reinterpret_cast<std::uintptr_t>(p) % 128 == 0; }

}  // namespace

TEST_CASE("blocks taken from a workspace are aligned and do not overlap") {
  auto memory = std::vector<std::byte>(1024 + 127);
  for (std::size_t offset = 0; offset < 128; offset += 3) {
    CAPTURE(offset);
    auto ws = pith::workspace<>(pith::span<std::byte>(memory.data() + offset, memory.size() - offset));
    auto const a = ws.take<float>(3);
    auto const b = ws.take<double>(17);
    CHECK(is_aligned(a.data));
    CHECK(is_aligned(b.data));
    CHECK(a.capacity == 3);
    CHECK(reinterpret_cast<std::byte*>(b.data) - reinterpret_cast<std::byte*>(a.data) == 128);
    CHECK(ws.high_water() == 128 + 256);
  }
}

TEST_CASE("scratch_for counts the alignment") {
  CHECK(pith::scratch_for<float>(0) == 0);
  CHECK(pith::scratch_for<float>(1) == 128);
  CHECK(pith::scratch_for<float>(32) == 128);
  CHECK(pith::scratch_for<float>(33) == 256);
  CHECK(pith::scratch_for<pith::packed<3>>(8) == 128);
}

TEST_CASE("the end of a workspace scope releases its memory, and the high-water mark stays") {
  auto memory = aligned_bytes();
  auto ws = pith::workspace<>(pith::span<std::byte>(memory.bytes, 1024));
  auto const first = ws.take<std::byte>(128);
  std::byte* second = nullptr;
  {
    auto const outer = ws.mark();
    second = ws.take<std::byte>(256).data;
    {
      auto const inner = ws.mark();
      ws.take<std::byte>(512);
    }
    CHECK(ws.take<std::byte>(512).data == second + 256);
  }
  CHECK(second == first.data + 128);
  CHECK(ws.take<std::byte>(1).data == second);
  CHECK(ws.high_water() == 128 + 256 + 512);
}

TEST_CASE("a workspace says how much is missing and stays as it was") {
  auto memory = aligned_bytes();
  auto ws = pith::workspace<>(pith::span<std::byte>(memory.bytes, 1000));
  ws.take<std::byte>(1);
  CHECK_THROWS_WITH_AS(
      ws.take<float>(256),
      "pith::workspace: the workspace must have 1024 bytes left, got 872 of 1000: allocate workspace_bytes",
      pith::workspace_exhausted);
  CHECK_THROWS_AS(ws.take<std::byte>(873), pith::workspace_exhausted);
  CHECK(ws.take<std::byte>(768).data == memory.bytes + 128);
  CHECK(ws.high_water() == 896);
}

TEST_CASE("an empty workspace gives nothing but nothing") {
  auto ws = pith::workspace<>(pith::span<std::byte>());
  CHECK(ws.take<float>(0).capacity == 0);
  CHECK_THROWS_AS(ws.take<std::byte>(1), pith::workspace_exhausted);
  std::byte one[1];
  auto tiny = pith::workspace<>(pith::span<std::byte>(one, 1));
  CHECK_THROWS_AS(tiny.take<std::byte>(1), pith::workspace_exhausted);
}

TEST_CASE("a buffer begins as zeros and moves") {
  auto a = pith::buffer<float, pith::seq_executor>(pith::seq, 5);
  CHECK(is_aligned(a.data()));
  CHECK(a.size_bytes() == 20);
  for (auto const v : a.view()) CHECK(v == 0);
  a.view()[4] = 7;
  auto b = std::move(a);
  CHECK(b.size() == 5);
  CHECK(b.view()[4] == 7);
  auto c = pith::buffer<float, pith::seq_executor>();
  CHECK(c.data() == nullptr);
  c = std::move(b);
  CHECK(c.view()[4] == 7);
}

TEST_CASE("a size whose number of bytes exceeds 2^64 - 1 is refused") {
  auto memory = std::vector<std::byte>(1024);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  CHECK_THROWS_AS(ws.take<float>(std::uint64_t{1} << 62), pith::workspace_exhausted);
  CHECK_THROWS_AS(ws.take_bytes(~std::size_t{0}), pith::workspace_exhausted);
  CHECK(ws.high_water() == 0);
  using doubles = pith::buffer<double, pith::seq_executor>;
  CHECK_THROWS_AS(doubles(pith::seq, std::size_t{1} << 61), std::bad_array_new_length);
}
