// pith/wire/detail/version_0.hpp — the names of codecs in frames of wire version 0.
#pragma once

#include <pith/config.hpp>

#include <string>
#include <string_view>

namespace pith { inline namespace PITH_ABI { namespace detail {

constexpr bool is_letter(char c) {
  return c == '_' || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9');
}

/// Returns `name` in which change(arguments) replaces the arguments of each stage top_k.
template <class F>
std::string with_top_k_arguments(std::string_view name, F const& change) {
  constexpr std::string_view call = "top_k(";
  auto changed = std::string();
  for (;;) {
    auto const begin = name.find(call), end = name.find(')', begin);
    if (end == name.npos) return changed.append(name);
    auto const is_longer_word = begin > 0 && is_letter(name[begin - 1]);  // such as chunk_top_k
    auto const arguments = name.substr(begin + call.size(), end - begin - call.size());
    changed.append(name.substr(0, begin)).append(call);
    changed.append(is_longer_word ? std::string(arguments) : change(arguments));
    name.remove_prefix(end);
  }
}

/// If the arguments end with `coder`, returns the arguments before it. If there is one argument, returns it and
/// `other`. The coders of a user stay.
inline std::string with_other_coder(std::string_view arguments, std::string_view coder, std::string_view other) {
  if (arguments.ends_with(coder)) return std::string(arguments.substr(0, arguments.size() - coder.size()));
  auto const is_one = arguments.find(',') == arguments.npos;
  return std::string(arguments).append(is_one ? other : "");
}

inline constexpr std::string_view packed_argument = ",packed_indices", elias_fano_argument = ",elias_fano";

/// In version 0, top_k(density) means packed indices, and top_k(density,elias_fano) means Elias-Fano indices.
/// name_from_version_0 returns the codec's name in the current version. name_in_version_0 is the inverse function.
inline std::string name_from_version_0(std::string_view name) {
  return with_top_k_arguments(
      name, [](std::string_view a) { return with_other_coder(a, elias_fano_argument, packed_argument); });
}
inline std::string name_in_version_0(std::string_view name) {
  return with_top_k_arguments(
      name, [](std::string_view a) { return with_other_coder(a, packed_argument, elias_fano_argument); });
}

}}}  // namespace pith::PITH_ABI::detail
