// tests/fuzz/state_vectors.hpp — bytes of bases and numbers of codebooks.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/core/detail/host_bytes.hpp>
#include <pith/exec/seq.hpp>
#include <pith/vector_quantize/hypersphere_quantizer.hpp>
#include <pith/vector_quantize/pca.hpp>
#include <pith/vector_quantize/product_quantizer.hpp>

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "edit.hpp"
#include "support/bases.hpp"

namespace fuzz {

/// Whether a call takes what it is given; it may refuse it by std::invalid_argument alone.
template <class F>
bool accepts(F const& call) {
  try {
    call();
    return true;
  } catch (std::invalid_argument const&) {
    return false;
  }
}

/// Encodes and decodes a tensor.
template <class C>
void use(C const& codec, std::uint64_t n) {
  auto x = std::vector<float>(n, 0.5f), y = x;
  auto state = pith::make_state<float>(pith::seq, codec, {n});
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, {n}));
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {n}));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  pith::compress(pith::seq, codec, pith::span<float>(x), pith::span<std::byte>(payload), state, ws);
  pith::decompress(pith::seq, codec, pith::span<std::byte const>(payload), pith::span<float>(y), state, ws);
}

/// Word 8 of a basis is a digest of all others.
inline void mend_digest(std::vector<std::byte>& basis) {
  constexpr std::size_t place = 8;
  auto words = std::vector<std::uint64_t>(basis.size() / 8);
  if (words.size() <= place) return;
  std::memcpy(words.data(), basis.data(), words.size() * 8);
  auto all = pith::digest();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i != place) all << words[i];
  }
  auto const value = all.value();
  std::memcpy(basis.data() + place * 8, &value, sizeof value);
}

/// Edits, after which the digest is right but for every eighth input.
inline void edit_basis(std::vector<std::byte>& bytes, input& from) {
  auto const how = from.take_byte();
  for (auto edits = how / 8 % 8; edits > 0; --edits) resize_or_edit(bytes, from);
  if (how % 8 != 0) mend_digest(bytes);
}

inline void load_basis(input& from) {
  static auto const plain = support::basis_of(72, 12, {}).save();
  static auto const oihw = support::basis_of(96, 8, pith::slice_order::oihw(4, 6, 4)).save();
  auto bytes = from.take_below(2) == 0 ? plain : oihw;
  edit_basis(bytes, from);
  auto basis = std::optional<pith::pca_basis>();
  if (!accepts([&] { basis.emplace(pith::pca_basis::load(pith::span<std::byte const>(bytes))); })) return;
  require(basis->save() == bytes, "a basis is not the one that was loaded");
  auto const& order = basis->order();
  auto const n = order.is_plain() ? basis->mean().size() : order.filters() * order.depth() * order.window();
  if (n <= 4096 && basis->fits(n)) use(pith::pca(*basis), n);
}

/// Samples of a tensor, or of none.
inline void load_samples(input& from) {
  auto const n = from.take_below(2) == 0 ? 0u : 26u;
  auto samples = pith::slice_samples<float>(n, 4);
  auto saved = pith::detail::byte_writer();
  for (auto count = from.take_below(4); count > 0; --count)
    samples.add(pith::span<float const>(std::vector<float>(n, 0.5f)));
  samples.save(saved);
  auto const before = saved.bytes;
  for (auto edits = from.take_below(8); edits > 0; --edits) resize_or_edit(saved.bytes, from);
  auto reader = pith::detail::byte_reader("fuzz", pith::span<std::byte const>(saved.bytes));
  auto const is_loaded = accepts([&] { samples.load(reader); });
  auto again = pith::detail::byte_writer();
  samples.save(again);
  auto const& expected = is_loaded ? saved.bytes : before;  // trailing bytes are permitted
  require(again.bytes.size() <= expected.size() && std::equal(again.bytes.begin(), again.bytes.end(), expected.begin()),
          "samples are not those that were loaded, or those of before");
}

inline void make_codebook(input& from) {
  static auto const pristine = pith::codebook::directions(4, 32, 3);
  auto const width = 4 ^ (from.take_byte() % 2 == 0 ? 0u : from.take_byte());
  auto bytes = std::vector<std::byte>(pristine.words().size() * sizeof(float));
  std::memcpy(bytes.data(), pristine.words().data(), bytes.size());
  for (auto edits = from.take_below(8); edits > 0; --edits) resize_or_edit(bytes, from);
  auto words = std::vector<float>(bytes.size() / sizeof(float));
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), words.size() * sizeof(float));
  accepts([&] {
    auto const made = pith::codebook(width, std::move(words));
    accepts([&] { use(pith::product_quantizer<5>(made), 43); });
    use(pith::hypersphere_quantizer<6>(made), 43);
  });
}

}  // namespace fuzz
