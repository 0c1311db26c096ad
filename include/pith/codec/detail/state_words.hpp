// pith/codec/detail/state_words.hpp — the description of a saved state: lines of its rank, tensors and fields.
#pragma once

#include <pith/codec/state.hpp>
#include <pith/core/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The names of the values of field_kind, in the same order. The name of `replicated` is "agreed".
inline constexpr std::array<std::string_view, 7> field_kinds = {"agreed", "mean",    "share", "estimate",
                                                                "part",   "learned", "fixed"};

/// The second line of the description of a gradient_exchange's state. The first line is the version.
inline constexpr std::string_view exchange_word = "gradient_exchange";

inline std::string rank_line(std::uint64_t rank, std::uint64_t ranks) { return text("rank ", rank, " of ", ranks); }

/// The line of a tensor. Line breaks and backslashes in the tensor's name are escaped.
inline std::string tensor_line(std::string_view description) {
  auto line = std::string("tensor ");
  for (auto const c : description) c == '\n' ? line += "\\n" : line.append(c == '\\' ? 2 : 1, c);
  return line;
}

inline std::string field_line(field_form const& f) {
  return text("field ", field_kinds[static_cast<std::size_t>(f.kind)], ' ', f.element, ' ', f.count, " places ",
              f.places, " granule ", f.granule);
}

/// Collects the lines of the visited fields.
struct field_describer final : field_visitor {
  void describe(field_form const& f) override { lines += field_line(f) + '\n'; }
  void visit(void*, std::size_t) override {}

  std::string lines;
};

}}}  // namespace pith::PITH_ABI::detail
