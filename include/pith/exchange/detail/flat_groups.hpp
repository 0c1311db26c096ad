// pith/exchange/detail/flat_groups.hpp — the tensors of an exchange that flat codecs join to vectors.
#pragma once

#include <pith/codec/any_codec.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/digest.hpp>
#include <pith/core/error.hpp>
#include <pith/exchange/detail/bucket_fit.hpp>
#include <pith/exchange/detail/buckets.hpp>
#include <pith/exchange/tensor_spec.hpp>
#include <pith/exec/lanes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The groups of tensors that flat codecs join. A group consists of the tensors of one tensor bucket that have the same
/// flat codec. The exchange treats the last tensor of a group, the leader, as the vector of the group, and the others as
/// empty tensors.
template <real In, executor E>
class flat_groups {
 public:
  using codec_type = any_codec<In, E>;

  flat_groups(E const& exec, std::vector<tensor_spec> const& tensors, std::vector<codec_type> const& codecs,
              bucket_list const& layout)
      : places_(tensors.size()) {
    for (auto const& codec : codecs) are_flat_.push_back(codec.is_flat());
    for (auto const& bucket : layout) add(tensors, codecs, bucket);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      groups_[g].memory = buffer<In, E>(exec, groups_[g].n);
      for (auto const i : groups_[g].tensors) places_[i].group = g;
    }
  }

  /// The tensors as the exchange treats them.
  std::vector<tensor_spec> joined(std::vector<tensor_spec> tensors) const {
    for (auto const& g : groups_) {
      for (auto const i : g.tensors) tensors[i].dims = i == g.leader() ? shape{g.n, 1, g.capacity} : shape{0};
    }
    return tensors;
  }

  bool has(std::size_t tensor) const { return places_[tensor].group != none; }
  /// The tensors of all groups, in ascending order.
  std::vector<std::size_t> tensors() const {
    auto all = std::vector<std::size_t>();
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (has(i)) all.push_back(i);
    return all;
  }
  /// The leader of a tensor's group; the tensor itself if it has no group.
  std::size_t leader(std::size_t tensor) const { return has(tensor) ? group_of(tensor).leader() : tensor; }
  /// The share of a tensor in the elements of its group.
  double share(std::size_t tensor) const {
    return has(tensor) ? static_cast<double>(places_[tensor].n) / static_cast<double>(group_of(tensor).n) : 1;
  }
  /// The values of a tensor, from arrays of its group's size that lie one after another, such as its residual.
  template <class A>
  std::vector<A> part_of(std::size_t tensor, std::vector<A> const& all) const {
    if (!has(tensor)) return all;
    auto const& at = places_[tensor];
    auto part = std::vector<A>();
    for (std::uint64_t first = at.first; first + at.n <= all.size(); first += group_of(tensor).n)
      part.insert(part.end(), all.data() + first, all.data() + first + at.n);
    return part;
  }
  /// What a saved state states about the group of a leader: its tensors and their order.
  std::string words(std::size_t tensor) const {
    if (!has(tensor) || leader(tensor) != tensor) return {};
    auto const& g = group_of(tensor);
    return text(" of ", g.tensors.size(), " tensors, digest ", g.names);
  }

  /// Throws if codecs would change the groups.
  void require_kept(std::vector<tensor_spec> const& tensors, std::vector<codec_type> const& codecs) const {
    for (std::size_t i = 0; i < codecs.size(); ++i) {
      require(codecs[i].is_flat() == are_flat_[i], "gradient_exchange: the codec of tensor ", i, ", \"",
              tensors[i].name, "\", must ", are_flat_[i] ? "stay" : "not become", " flat(c), got ", codecs[i].name());
      auto const first = leader(i);
      require(first == i || codecs[i].name() == codecs[first].name(), "gradient_exchange: the codec of tensor ", i,
              ", \"", tensors[i].name, "\", must be that of tensor ", first, ", ", codecs[first].name(), ", got ",
              codecs[i].name(), ": flat(c) has joined these tensors");
    }
  }

  /// Adds the times of each group to the times of its leader.
  void join(std::vector<tensor_times>& times) const {
    for (auto const& g : groups_) {
      auto& of_leader = times[g.leader()];
      for (auto const i : g.tensors) {
        of_leader.ready = std::max(of_leader.ready, times[i].ready);
        if (i != g.leader()) of_leader.transfer += std::exchange(times[i].transfer, 0);
      }
    }
  }
  /// Moves the tensors of each group to the tensor bucket of the leader.
  bucket_list kept_together(bucket_list layout) const {
    for (auto const& g : groups_) {
      auto const holds = [&](auto const& bucket) { return std::ranges::binary_search(bucket, g.leader()); };
      auto& home = *std::ranges::find_if(layout, holds);
      for (auto& bucket : layout)
        std::erase_if(bucket, [&](std::size_t i) { return std::ranges::binary_search(g.tensors, i); });
      home.insert(home.end(), g.tensors.begin(), g.tensors.end());
      std::ranges::sort(home);
    }
    std::erase_if(layout, [](auto const& bucket) { return bucket.empty(); });
    return layout;
  }

  /// Writes the gradients of tensors that are in groups to the vectors of their groups. A vector whose gradients lie one
  /// after another in memory needs no copy. `tensors` is an ascending list that contains whole groups.
  void join(E const& exec, std::vector<std::size_t> const& tensors, std::vector<In*> const& gradients) {
    auto const work = joins_.record(exec);
    for (auto const i : tensors) {
      auto const& at = places_[i];
      auto& g = groups_[at.group];
      if (i == g.tensors.front()) g.values = vector_of(g, gradients);
      if (at.n > 0 && g.is_copied()) work.next_lane().copy(g.values + at.first, gradients[i], at.n * sizeof(In));
    }
    work.run();
  }
  /// Writes the values of the vectors back to the gradients.
  void part(E const& exec, std::vector<std::size_t> const& tensors, std::vector<In*> const& gradients) {
    auto const work = parts_.record(exec);
    for (auto const i : tensors) {
      auto const& at = places_[i];
      auto const& g = groups_[at.group];
      if (at.n > 0 && g.is_copied()) work.next_lane().copy(gradients[i], g.values + at.first, at.n * sizeof(In));
    }
    work.run();
  }
  /// The vector of a leader's group.
  In* values(std::size_t leader) const { return group_of(leader).values; }

 private:
  static constexpr auto none = static_cast<std::size_t>(-1);

  struct place {
    std::size_t group = none;
    std::uint64_t first = 0, n = 0;  ///< the tensor's elements in the vector
  };
  struct group {
    std::string codec;
    std::vector<std::size_t> tensors = {};  ///< in ascending order
    std::uint64_t n = 0, capacity = 0;
    std::uint64_t names = 0;  ///< a digest of the tensors' names, in this order
    buffer<In, E> memory = {};
    In* values = nullptr;  ///< during a step, the vector: the memory, or the first gradient

    std::size_t leader() const { return tensors.back(); }
    bool is_copied() const { return values == memory.data(); }
  };

  group const& group_of(std::size_t tensor) const { return groups_[places_[tensor].group]; }

  /// Adds the groups of one tensor bucket. A single tensor needs no group.
  void add(std::vector<tensor_spec> const& tensors, std::vector<codec_type> const& codecs,
           std::vector<std::size_t> const& bucket) {
    auto made = std::vector<group>();
    for (auto const i : bucket) {
      if (!codecs[i].is_flat()) continue;
      auto const name = codecs[i].name();
      auto at = std::ranges::find(made, name, &group::codec);
      if (at == made.end()) at = made.insert(at, group{.codec = name});
      auto const& dims = tensors[i].dims;
      places_[i] = {none, at->n, dims.n};
      at->n += dims.n;
      at->capacity += std::min(dims.capacity, shape().capacity - at->capacity);
      at->tensors.push_back(i);
    }
    for (auto& g : made) {
      if (g.tensors.size() < 2 || g.n == 0) continue;
      auto names = digest();
      for (auto const i : g.tensors) names << tensors[i].name << tensors[i].dims.n;
      g.names = names.value();
      groups_.push_back(std::move(g));
    }
  }
  /// The first gradient, if the gradients lie one after another; otherwise the memory of the group.
  In* vector_of(group const& g, std::vector<In*> const& gradients) const {
    In* begin = nullptr;
    for (auto const i : g.tensors) {
      if (places_[i].n == 0) continue;
      if (begin == nullptr) begin = gradients[i];
      if (gradients[i] != begin + places_[i].first) return g.memory.data();
    }
    return begin;
  }

  std::vector<place> places_;
  std::vector<char> are_flat_;
  std::vector<group> groups_;
  lanes<E> joins_, parts_;
};

}}}  // namespace pith::PITH_ABI::detail
