// pith/exchange/reshard.hpp — conversion of a job's saved states to another number of ranks.
#pragma once

#include <pith/collective/tensor_parts.hpp>
#include <pith/core/detail/float_environment.hpp>
#include <pith/core/element.hpp>
#include <pith/core/error.hpp>
#include <pith/core/span.hpp>
#include <pith/exchange/detail/adaptive_state.hpp>
#include <pith/exchange/detail/rank_states.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

inline void copy_field(std::byte* to, std::byte const* from, std::size_t size) {
  if (size > 0) std::memcpy(to, from, size);
}

/// An old rank is a rank of the job that saved the states. A new rank is a rank of the job that will import the states.
/// `bytes` is a field of an old rank. A field of a new rank is the sum of weight x field over some old ranks.
struct weighted_field {
  std::byte const* bytes;
  double weight;
};

/// Old rank r of n has the interval [r / n, (r + 1) / n), and new rank `to` of `ranks` has the interval [to / ranks,
/// (to + 1) / ranks). Returns the fields of the old ranks whose intervals overlap the interval of `to`. The weight of
/// an old rank is the share of the new interval that the old interval covers.
inline std::vector<weighted_field> overlapping(std::vector<std::byte const*> const& old, std::uint64_t to,
                                               std::uint64_t ranks) {
  auto shares = std::vector<weighted_field>();
  auto const n = old.size();
  for (auto r = to * n / ranks; r * ranks < (to + 1) * n; ++r) {
    auto const common = std::min((to + 1) * n, (r + 1) * ranks) - std::max(to * n, r * ranks);
    shares.push_back({old[r], static_cast<double>(common) / static_cast<double>(n)});
  }
  return shares;
}

/// Sets `to` to the sum of weight x field, in double precision. Each product is stored in memory before it is added.
/// So no compiler forms a fused multiply-add, and all compilers give bitwise equal results.
template <class T>
void add_weighted(std::vector<weighted_field> const& from, std::uint64_t count, std::byte* to) {
  auto sums = std::vector<double>(count), products = sums;
  for (auto const& [bytes, weight] : from) {
    for (std::uint64_t i = 0; i < count; ++i) {
      auto x = T();
      std::memcpy(&x, bytes + i * sizeof x, sizeof x);
      products[i] = weight * element_cast<double>(x);
    }
    for (std::uint64_t i = 0; i < count; ++i) sums[i] += products[i];
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    auto const x = element_cast<T>(sums[i]);
    std::memcpy(to + i * sizeof x, &x, sizeof x);
  }
}

/// Writes the weighted sum of the fields of old ranks. If only one old rank contributes, copies its field.
inline void mix_fields(rank_field const& field, std::vector<weighted_field> const& from, std::byte* to) {
  auto const element = field.form.element;
  auto const count = field.form.count;
  if (from.size() == 1) return copy_field(to, from[0].bytes, field.size);
  if (element == element_name<float>()) return add_weighted<float>(from, count, to);
  if (element == element_name<double>()) return add_weighted<double>(from, count, to);
  if (element == element_name<half>()) return add_weighted<half>(from, count, to);
  add_weighted<bfloat16>(from, count, to);
}

/// Computes the states of the new ranks, whose number is `ranks`.
class resharding {
 public:
  resharding(rank_states states, unsigned ranks) : old_(std::move(states)), ranks_(ranks) {
    for (auto const& field : old_.fields()) {
      require_numbers(field);
      require_ranks(field);
    }
  }

  std::vector<std::byte> state(unsigned rank) const {
    auto bytes = std::vector<std::byte>(old_.bytes());
    for (auto const& field : old_.fields()) fill(field, rank, bytes.data() + field.first);
    return save_states(text(exchange_word, '\n', rank_line(rank, ranks_), '\n', old_.words()), bytes);
  }

 private:
  static void require_numbers(rank_field const& field) {
    auto const kind = field.form.kind;
    auto const is_number = field.form.element != "byte" && !field.form.element.starts_with("uint");
    auto const counts = kind == field_kind::share || kind == field_kind::estimate || kind == field_kind::part;
    require(is_number || !counts, "reshard: fields of kind ", field_kinds[static_cast<std::size_t>(kind)],
            " must have elements that are added up, got ", field.form.element, " of ", field.tensor,
            ": pass another field_kind to the visitor of the codec's state");
  }
  void require_ranks(rank_field const& field) const {
    auto const places = field.form.places;
    require(field.form.kind != field_kind::fixed || (old_.is_whole() && ranks_ == old_.ranks()),
            "reshard: ranks and states must be ", old_.ranks(), " for a field of kind fixed, got ", ranks_,
            " ranks and ", old_.size(), " states of ", field.tensor,
            ": the state of this codec cannot be converted to another number of ranks");
    require(ranks_ % places == 0, "reshard: ranks must be a multiple of ", places, ", the ranks of a node, got ",
            ranks_, " of ", field.tensor);
    for (unsigned place = 0; place < places && !field.form.is_replicated(); ++place)
      require(!at_place(place, field).empty(), "reshard: states must have a rank with local rank ", place,
              " in its node of ", places, ", got none of ", field.tensor);
  }

  /// Returns the fields of all old ranks with the local rank `place` in their node of `field.form.places` ranks.
  std::vector<std::byte const*> at_place(unsigned place, rank_field const& field) const {
    auto found = std::vector<std::byte const*>();
    for (std::size_t i = 0; i < old_.size(); ++i)
      if (old_.rank(i) % field.form.places == place) found.push_back(old_.at(i, field));
    return found;
  }
  std::vector<weighted_field> overlapping(rank_field const& field, unsigned rank) const {
    auto const places = field.form.places;
    return detail::overlapping(at_place(rank % places, field), rank / places, ranks_ / places);
  }

  void fill(rank_field const& field, unsigned rank, std::byte* to) const {
    switch (field.form.kind) {
      case field_kind::replicated: return copy_field(to, old_.at(0, field), field.size);
      case field_kind::mean: return fill_mean(field, to);
      case field_kind::share:
      case field_kind::estimate: return mix_fields(field, overlapping(field, rank), to);
      case field_kind::part: return fill_part(field, rank, to);
      case field_kind::learned: return copy_field(to, overlapping(field, rank)[0].bytes, field.size);
      case field_kind::fixed: return copy_field(to, old_.at(rank, field), field.size);
    }
  }

  /// Copies the field. But if states of old ranks are missing, and the tensor has a field of kind `estimate`, writes
  /// the mean of this field over the old ranks whose states are present.
  void fill_mean(rank_field const& field, std::byte* to) const {
    auto const* const estimate = old_.is_whole() ? nullptr : estimate_of(field);
    if (estimate == nullptr) return copy_field(to, old_.at(0, field), field.size);
    mix_fields(field, detail::overlapping(at_place(0, *estimate), 0, 1), to);
  }
  /// The field of kind `estimate` whose mean over the ranks is `field`; null if the tensor has no such field.
  rank_field const* estimate_of(rank_field const& field) const {
    auto const& all = old_.fields();
    for (auto i = field.sibling; i < all.size() && all[i].sibling == field.sibling; ++i) {
      if (all[i].form.kind == field_kind::estimate && all[i].form.element == field.form.element &&
          all[i].size == field.size)
        return &all[i];
    }
    return nullptr;
  }

  /// Copies each element of the new rank's part from the old rank whose part contained this element. If the state of
  /// this old rank is missing, the element becomes zero.
  void fill_part(rank_field const& field, unsigned rank, std::byte* to) const {
    auto const places = field.form.places;
    auto const before = parts(field, std::max(1u, old_.ranks() / places)), after = parts(field, ranks_ / places);
    auto const first = after.first(rank / places), end = after.first(rank / places + 1);
    for (std::size_t i = 0; i < old_.size(); ++i) {
      auto const old = old_.rank(i) / places;
      auto const from = std::max(first, before.first(old)), until = std::min(end, before.first(old + 1));
      if (old_.rank(i) % places != rank % places || from >= until) continue;
      auto const bytes = element_bytes(field.form.element);
      copy_field(to + (from - first) * bytes, old_.at(i, field) + (from - before.first(old)) * bytes,
                 (until - from) * bytes);
    }
  }
  static tensor_parts parts(rank_field const& field, unsigned ranks) {
    auto const n = field.form.count;
    return {n, ranks, std::clamp<std::uint64_t>(field.form.granule, 1, std::max<std::uint64_t>(n, 1))};
  }

  rank_states old_;
  unsigned ranks_;
};

/// The new job has `ranks` ranks. `reshard` computes the states of the new ranks `first` .. `end` - 1.
struct new_ranks {
  unsigned ranks, first, end;
};

inline std::vector<std::vector<std::byte>> reshard_exchange(std::vector<span<std::byte const>> const& states,
                                                            new_ranks const& to) {
  auto const job = resharding(rank_states(states), to.ranks);
  auto made = std::vector<std::vector<std::byte>>();
  for (auto rank = to.first; rank < to.end; ++rank) made.push_back(job.state(rank));
  return made;
}

/// Converts states of adaptive_exchange. The controller's state must be equal on all ranks, since all ranks choose
/// equal rates.
inline std::vector<std::vector<std::byte>> reshard_adaptive(std::vector<span<std::byte const>> const& states,
                                                            new_ranks const& to) {
  auto const own = open_states("reshard: states[0]", states[0]);
  auto const parts = open_adaptive("reshard: states[0]", own.states);
  auto const own_bytes = own.states.first(own.states.size() - parts.exchange.size());
  auto inside = std::vector<span<std::byte const>>();
  for (std::size_t i = 0; i < states.size(); ++i) {
    auto const call = text("reshard: states[", i, ']');
    auto const other = open_states(call.c_str(), states[i]);
    require_words(call.c_str(), own.words, other.words);
    inside.push_back(open_adaptive(call.c_str(), other.states).exchange);
    require(std::ranges::equal(other.states.first(other.states.size() - inside[i].size()), own_bytes), call,
            ": the controller's state must be equal on all ranks, got another than states[0]: pass states that were ",
            "saved after the same step");
  }
  auto made = reshard_exchange(inside, to);
  for (auto& exchange : made)
    exchange = save_adaptive(std::string(own.words), {parts.head, parts.controller, exchange});
  return made;
}

inline std::vector<std::vector<std::byte>> reshard(std::vector<std::vector<std::byte>> const& states,
                                                   new_ranks const& to) {
  auto const environment = default_float_environment();
  require(!states.empty(), "reshard: states must have at least 1 entry, got 0");
  require(1 <= to.ranks && to.ranks < shared_rank, "reshard: ranks must be in [1, ", shared_rank, "), got ", to.ranks);
  require(to.first < to.ranks, "reshard: rank must be below ", to.ranks, ", got ", to.first);
  auto const spans = std::vector<span<std::byte const>>(states.begin(), states.end());
  auto words = open_states("reshard: states[0]", spans[0]).words;
  auto const is_adaptive = take_line(words) == adaptive_word;
  return is_adaptive ? reshard_adaptive(spans, to) : reshard_exchange(spans, to);
}

}  // namespace detail

/// Converts the states of all ranks of a job to the states of a job with `ranks` ranks. The states come from
/// `export_state` of gradient_exchange or adaptive_exchange. The states of lost ranks may be missing. Each rank of the
/// new job imports its own state. `reshard` reads only the serialised states, and needs no codec and no executor.
///
///   requires    states in rank order, which were saved after the same step. The new job has equal codecs, tensors,
///               seed and element type. The codecs allow the new number of ranks; hierarchical needs a multiple of
///               ranks_per_node
///   state       preserves replicated state, and the mean of rank-local state over the ranks. A field of kind `part`
///               contains different elements of a tensor on each rank; all these elements are preserved. The rank-local
///               state of a lost rank is lost; see docs/composing.md
///   complexity  reads all states, and allocates and writes `ranks` states of the same size
///   errors      std::invalid_argument if bytes are not a state or are damaged, if states are of different jobs or
///               steps, or if the state of a codec cannot be converted to this number of ranks
inline std::vector<std::vector<std::byte>> reshard(std::vector<std::vector<std::byte>> const& states, unsigned ranks) {
  return detail::reshard(states, {ranks, 0, ranks});
}
/// Returns the state of one new rank, so that each process of the new job can convert only its own state.
inline std::vector<std::byte> reshard(std::vector<std::vector<std::byte>> const& states, unsigned ranks,
                                      unsigned rank) {
  return detail::reshard(states, {ranks, rank, rank + 1})[0];
}

}}  // namespace pith::PITH_ABI
