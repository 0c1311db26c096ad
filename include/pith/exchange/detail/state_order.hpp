// pith/exchange/detail/state_order.hpp — a saved state whose tensors are brought into the order of another list.
#pragma once

#include <pith/codec/detail/saved_state.hpp>
#include <pith/codec/detail/state_words.hpp>
#include <pith/core/error.hpp>
#include <pith/core/span.hpp>
#include <pith/exchange/detail/state_lines.hpp>
#include <pith/exchange/tensor_spec.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A tensor in a saved state: its lines in the description, and its values.
struct tensor_section {
  std::string_view lines;
  span<std::byte const> values;

  /// The beginning of the tensor's line, up to the quotation mark after the tensor's name.
  std::string_view name() const { return lines.substr(0, lines.substr(0, lines.find('\n')).rfind("\" of ")); }
};

/// A saved state of a gradient_exchange: the lines before the first tensor, and the tensors.
struct state_sections {
  std::string_view head;
  std::vector<tensor_section> tensors;
};

/// The size of the values that the lines of a tensor describe.
inline std::size_t values_bytes(char const* call, std::string_view lines, std::size_t most) {
  std::size_t bytes = 0;
  while (!lines.empty()) {
    auto const line = take_line(lines);
    if (!line.starts_with("field ")) continue;
    auto const form = field_of(call, line);
    auto const size = element_bytes(form.element);
    require(form.count <= (most - bytes) / size, call, ": the state must have the bytes of \"", line, "\", got ",
            most - bytes, " bytes");
    bytes += form.count * size;
  }
  return bytes;
}

inline state_sections sections_of(char const* call, saved_parts const& saved) {
  constexpr auto mark = std::string_view("\ntensor ");
  auto const first = std::min(saved.words.find(mark), saved.words.size() - 1) + 1;
  auto all = state_sections{saved.words.substr(0, first), {}};
  auto values = saved.states;
  for (auto left = saved.words.substr(first); !left.empty();) {
    auto const lines = left.substr(0, std::min(left.find(mark), left.size() - 1) + 1);
    auto const bytes = values_bytes(call, lines, values.size());
    all.tensors.push_back({lines, values.first(bytes)});
    left.remove_prefix(lines.size());
    values = values.subspan(bytes);
  }
  return all;
}

/// The indices of a list in the order of its sorted names. Equal names stay in the order of the list.
inline std::vector<std::size_t> sorted_by_name(std::vector<std::string_view> const& names) {
  auto order = std::vector<std::size_t>(names.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    auto const compared = names[a].compare(names[b]);
    return compared < 0 || (compared == 0 && a < b);
  });
  return order;
}

/// For each name of `own`, the index of this name in `saved`. Empty if the lists are equal, or contain different names.
inline std::vector<std::size_t> order_in(std::vector<std::string_view> const& own,
                                         std::vector<std::string_view> const& saved) {
  if (own == saved || own.size() != saved.size()) return {};
  auto const to = sorted_by_name(own), from = sorted_by_name(saved);
  auto order = std::vector<std::size_t>(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[to[i]] != saved[from[i]]) return {};
    order[to[i]] = from[i];
  }
  return order;
}

/// The words and values of a saved state in a new order.
struct ordered_state {
  std::string words;
  std::vector<std::byte> values;

  saved_parts parts() const { return {words, values}; }
};

/// Returns a saved state with its tensors in the order of `own`. The result is empty if they have this order, or if the
/// names of the tensors differ.
inline std::optional<ordered_state> in_order_of(char const* call, std::vector<tensor_spec> const& own,
                                                saved_parts const& saved) {
  auto const sections = sections_of(call, saved);
  auto lines = std::vector<std::string>();
  for (auto const& t : own) lines.push_back(tensor_line(text('"', t.name)));
  auto names = std::vector<std::string_view>();
  for (auto const& t : sections.tensors) names.push_back(t.name());
  auto const order = order_in({lines.begin(), lines.end()}, names);
  if (order.empty()) return {};
  auto made = ordered_state{std::string(sections.head), {}};
  for (auto const i : order) {
    auto const& [text, values] = sections.tensors[i];
    made.words += text;
    made.values.insert(made.values.end(), values.begin(), values.end());
  }
  return made;
}

/// Throws std::invalid_argument if a saved state has the tensors of `own` in another order.
inline void require_order(char const* call, std::vector<tensor_spec> const& own, span<std::byte const> saved) {
  require(!in_order_of(call, own, open_states(call, saved)), call,
          ": the tensors must be listed in the order of the job that saved the state, got another order: the ",
          "controller's state has no names");
}

}}}  // namespace pith::PITH_ABI::detail
