// pith/exchange/detail/rank_states.hpp — the saved states of a gradient_exchange's ranks, field by field.
#pragma once

#include <pith/codec/detail/saved_state.hpp>
#include <pith/codec/detail/state_words.hpp>
#include <pith/core/error.hpp>
#include <pith/core/span.hpp>
#include <pith/exchange/detail/state_lines.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The saved state of one rank.
struct rank_state {
  unsigned rank, ranks;
  std::string_view words;  ///< the description without the rank's line; equal on all ranks
  span<std::byte const> bytes;
};

inline rank_state open_rank(char const* call, span<std::byte const> saved) {
  auto [words, bytes] = open_states(call, saved);
  auto const kind = take_line(words);
  require(kind == exchange_word, call, ": the state must be of gradient_exchange or adaptive_exchange, got one of ",
          kind.substr(0, 200));
  auto const [rank, ranks] = rank_of(call, take_line(words));
  return {rank, ranks, words, bytes};
}

/// A field of a tensor's state. A field has the same offset in the saved states of all ranks.
struct rank_field {
  field_form form;
  std::size_t first, size;
  std::string_view tensor;  ///< the tensor's line in the description
  std::size_t sibling;      ///< the index of the first field of the same tensor
};

/// The saved states of a job in rank order. The states of some ranks may be missing. The states must be of one job and
/// have equal descriptions.
class rank_states {
 public:
  explicit rank_states(std::vector<span<std::byte const>> const& saved) {
    for (auto const& bytes : saved) {
      all_.push_back(open_rank(name(all_.size()).c_str(), bytes));
      require_one_job(all_.size() - 1);
    }
    read_fields();
    for (auto const& field : fields_) require_equal(field);
  }

  std::size_t size() const { return all_.size(); }
  std::string_view words() const { return all_[0].words; }
  std::size_t bytes() const { return all_[0].bytes.size(); }
  /// The number of ranks in the job that saved the states.
  unsigned ranks() const { return all_[0].ranks; }
  bool is_whole() const { return size() == ranks(); }

  std::vector<rank_field> const& fields() const { return fields_; }
  unsigned rank(std::size_t i) const { return all_[i].rank; }
  std::byte const* at(std::size_t i, rank_field const& field) const { return all_[i].bytes.data() + field.first; }

 private:
  static std::string name(std::size_t i) { return text("reshard: states[", i, ']'); }

  void require_one_job(std::size_t i) const {
    auto const& state = all_[i];
    auto const call = name(i);
    require_words(call.c_str(), words(), state.words);
    require(state.ranks == ranks(), call, ": the state must be of a job of ", ranks(), " ranks, got one of ",
            state.ranks);
    if (i == 0) return;
    auto const before = all_[i - 1].rank;
    require(state.rank > before, call, ": the rank must be above ", before, ", that of the state before, got ",
            state.rank, ": pass the state of each rank once, in rank order");
  }

  void read_fields() {
    auto tensor = std::string_view();
    std::size_t at = 0, sibling = 0;
    for (auto left = words(); !left.empty();) {
      auto const line = take_line(left);
      if (line.starts_with("tensor ")) tensor = line.substr(0, 400), sibling = fields_.size();
      if (!line.starts_with("field ")) continue;
      auto const form = field_of(name(0).c_str(), line);
      auto const size = element_bytes(form.element);
      require(form.count <= (bytes() - at) / size, name(0), ": the state must have the bytes of \"", line, "\", got ",
              bytes() - at, " bytes");
      fields_.push_back({form, at, form.count * size, tensor, sibling});
      at += form.count * size;
    }
    for (std::size_t i = 0; i < size(); ++i)
      require(all_[i].bytes.size() == at, name(i), ": the state's fields must have ", at, " bytes, got ",
              all_[i].bytes.size());
  }

  void require_equal(rank_field const& field) const {
    for (std::size_t i = 1; field.form.is_replicated() && i < size(); ++i) {
      require(std::equal(at(i, field), at(i, field) + field.size, at(0, field)), name(i),
              ": the replicated state must be equal on all ranks, got another than states[0] of ", field.tensor,
              ": pass states that were saved after the same step");
    }
  }

  std::vector<rank_state> all_;
  std::vector<rank_field> fields_;
};

}}}  // namespace pith::PITH_ABI::detail
