// tests/wire/golden_frames.hpp — the frozen frames of all wire versions: decoded, also without pith, and encoded again.
#pragma once

#include <pith/wire/frame.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/parsed.hpp"
#include "support/vectors.hpp"
#include "wire/scalar_decoder.hpp"

namespace support {

inline std::vector<std::byte> read_file(std::filesystem::path const& path) {
  auto file = std::ifstream(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path.string());
  auto const text = std::vector<char>(std::istreambuf_iterator<char>(file), {});
  auto bytes = std::vector<std::byte>(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

inline std::vector<std::filesystem::path> frames() {
  auto found = std::vector<std::filesystem::path>();
  for (auto const& entry : std::filesystem::recursive_directory_iterator(std::string(PITH_TEST_DATA) + "/wire")) {
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

/// True if a later version has other payloads for a frame's codec. Then it has a frame of the same name.
inline bool is_outdated(std::filesystem::path const& path) {
  auto const directory = path.parent_path();
  return directory.filename() == "v0" && std::filesystem::exists(directory.parent_path() / "v1" / path.filename());
}

/// The frame decodes to its values, by pith and by the independent decoder. Unless it is outdated, its inputs encode to
/// its payload.
template <class In>
void agrees(std::filesystem::path const& path) {
  auto const frame = read_file(path);
  auto const h = pith::wire::read_header(pith::span<std::byte const>(frame));
  auto const codec = pith::parse<In>(h.codec);
  auto state = pith::make_state<In>(pith::seq, codec, h.dims, h.owner);
  auto memory = std::vector<std::byte>(pith::wire::workspace_bytes<In>(pith::seq, codec, h.dims));
  auto ws = pith::workspace<>(memory);

  auto decoded = std::vector<In>(h.dims.n);
  pith::wire::open(pith::seq, codec, frame, decoded, state, ws);
  CHECK(same_bytes(decoded, values_beside<In>(path, ".out")));

  auto raw = scalar::bytes(frame.size());
  std::memcpy(raw.data(), frame.data(), frame.size());
  CHECK(same_bytes(scalar::decode(scalar::read(raw)), widen(decoded)));

  if (is_outdated(path)) return;
  auto const all = values_beside<In>(path, ".in");
  auto anew = std::vector<std::byte>(pith::wire::frame_bytes<In>(codec, h.dims));
  REQUIRE(all.size() == h.step * h.dims.n);
  for (std::size_t step = 0; step < h.step; ++step) {
    auto const x = pith::span<In const>(all).subspan(step * h.dims.n, h.dims.n);
    pith::wire::seal(pith::seq, codec, x, pith::span<std::byte>(anew), state, ws);
  }
  auto const made = pith::wire::read_header(pith::span<std::byte const>(anew));
  CHECK(made.codec == h.codec);
  auto const size = static_cast<std::ptrdiff_t>(h.payload_bytes);
  CHECK(made.payload_bytes == h.payload_bytes);
  CHECK(std::equal(anew.end() - size, anew.end(), frame.end() - size, frame.end()));
  if (h.frame_version == pith::wire::version) CHECK(anew == frame);
}

/// All frames of elements of `In` agree.
template <class In>
void check_golden_frames() {
  std::size_t found = 0;
  for (auto const& path : frames()) {
    auto const frame = read_file(path);
    if (pith::wire::read_header(pith::span<std::byte const>(frame)).element != pith::kind_of<In>()) continue;
    CAPTURE(path.string());
    agrees<In>(path);
    ++found;
  }
  CHECK(found > 0);
}

}  // namespace support
