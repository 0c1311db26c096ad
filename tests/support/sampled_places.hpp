// tests/support/sampled_places.hpp — the sampled indices of a selection; large values only there mislead it.
#pragma once

#include <pith/exec/seq.hpp>
#include <pith/sparsify/detail/candidates.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

namespace support {

/// The sampled indices of n < 2^24 elements.
inline std::vector<std::uint32_t> sampled_places(std::uint32_t n) {
  using source = pith::ext::plain_source<float>;
  auto places = std::vector<float>(n);
  std::iota(places.begin(), places.end(), 0.0f);
  auto const samples = pith::detail::selection_size::of(n, 1).samples;
  auto keys = std::vector<std::uint32_t>(samples);
  auto const of = pith::detail::selection<source>{{places.data()}, n, 1, 1};
  using sampling = pith::detail::sample_keys<source>;
  auto const blocks = pith::detail::blocks_for(samples, sampling::items_per_block);
  pith::seq.for_each_block(blocks, sampling{of, keys.data(), samples});
  for (auto& key : keys) key = static_cast<std::uint32_t>(pith::detail::bits_as<float>(key));
  return keys;
}

/// x with `value` at `count` of the sampled indices.
template <class T>
std::vector<T> misleading(std::vector<T> x, T value, std::size_t count) {
  auto const places = sampled_places(static_cast<std::uint32_t>(x.size()));
  for (std::size_t i = 0; i < count; ++i) x[places[i]] = value;
  return x;
}

}  // namespace support
