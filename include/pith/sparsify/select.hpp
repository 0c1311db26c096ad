// pith/sparsify/select.hpp — the k largest of n keys.
#pragma once

#include <pith/core/executor.hpp>

#include <algorithm>
#include <functional>

namespace pith::inline v0::detail {

template <class Key>
std::size_t select_scratch_bytes(std::uint64_t n) {
  return scratch_for<Key>(n);
}

/// The k indices of largest key(i), ascending; ties to the smaller index.
template <executor E, class F>
void select_largest(E const&, std::uint32_t* out, std::uint64_t k, std::uint64_t n, F const& key, workspace_on<E>& ws) {
  using key_type = std::remove_cvref_t<decltype(key(0))>;
  if (k == 0) return;
  auto const scope = ws.mark();
  auto* keys = ws.template take<key_type>(n).data;
  for (std::uint64_t i = 0; i < n; ++i) keys[i] = key(i);
  std::nth_element(keys, keys + (k - 1), keys + n, std::greater<>());
  auto const least = keys[k - 1];
  auto ties = k - static_cast<std::uint64_t>(std::count_if(keys, keys + (k - 1), [=](auto v) { return v > least; }));
  for (std::uint64_t i = 0; i < n; ++i) {
    auto const v = key(i);
    if (v > least || (v == least && ties > 0 && ties-- > 0)) *out++ = static_cast<std::uint32_t>(i);
  }
}

}  // namespace pith::inline v0::detail
