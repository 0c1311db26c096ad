// pith/codec/detail/chain_promises.hpp — the capabilities of a chain, computed from those of its stages.
#pragma once

#include <pith/codec/capability.hpp>

#include <cstddef>
#include <initializer_list>
#include <tuple>

namespace pith { inline namespace PITH_ABI { namespace detail {

constexpr bool all_but_last(std::initializer_list<bool> holds) {
  for (auto i = holds.begin(); i + 1 < holds.end(); ++i) {
    if (!*i) return false;
  }
  return true;
}

template <class... S>
inline constexpr bool heads_isometric = all_but_last({traits_of<S>.isometric...});
template <class... S>
inline constexpr bool heads_keep_errors = all_but_last({traits_of<S>.isometric || traits_of<S>.rotation...});
/// True if each stage except the last is a rotation, or an isometric projection with a known delta.
template <class... S>
inline constexpr bool heads_project = all_but_last(
    {(traits_of<S>.isometric && traits_of<S>.projection && promises_of<S>.contractive) || traits_of<S>.rotation...});
template <class... S>
inline constexpr bool heads_summable = all_but_last({traits_of<S>.is_summable()...});
/// True if each stage except the last is linear, and equal on all ranks. Such stages can decode a sum.
template <class... S>
inline constexpr bool heads_decode_sums = all_but_last({traits_of<S>.sums == sum_form::encode &&
                                                        !traits_of<S>.affine...});
template <class... S>
using last_of = std::tuple_element_t<sizeof...(S) - 1, std::tuple<S...>>;

/// True if the last stage is a collective codec that may end a chain (`sums_in_chains`), and all other stages are
/// summable. The chain then uses the rounds of its last stage, and all ranks can decode the mean with the other stages.
template <class... S>
concept ends_in_rounds = heads_summable<S...> && (traits_of<last_of<S...>>.sums_in_chains);

constexpr std::size_t last_of_true(std::initializer_list<bool> holds) {
  std::size_t last = 0;
  for (auto i = holds.begin(); i != holds.end(); ++i) {
    if (*i) last = static_cast<std::size_t>(i - holds.begin());
  }
  return last;
}
template <class... S>
inline constexpr std::size_t last_variable = last_of_true({traits_of<S>.is_variable()...});

template <class... S>
constexpr rate_form chain_rate_form() {
  auto form = rate_form::fixed;
  ((form = joined_rate(form, traits_of<S>.rates)), ...);
  return form;
}

template <class... S>
constexpr sum_form chain_sum_form() {
  if constexpr (!(traits_of<S>.is_summable() && ...)) {
    return sum_form::none;
  } else {
    return ((traits_of<S>.sums == sum_form::decode) || ...) ? sum_form::decode : sum_form::encode;
  }
}

}}}  // namespace pith::PITH_ABI::detail
