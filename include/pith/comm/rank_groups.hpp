// pith/comm/rank_groups.hpp — a communicator and those of groups of its ranks, among which some exchanges move bytes.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/error.hpp>
#include <pith/core/rounds.hpp>

#include <algorithm>
#include <concepts>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace pith::inline v0 {

/// It splits into communicators of its own type.
template <class Comm>
concept splits_alike = splits<Comm> && requires(Comm& comm) {
  { comm.split(0u) } -> std::same_as<Comm>;
};

/// A communicator, and one of each group of ranks that was added.
///
///   needs    a communicator that outlives it and, for groups, splits_alike; groups that the number of ranks is a
///            multiple of (std::invalid_argument). To add is a call of all ranks, in equal order
///   cost     a split a group, once; of() is a search among the groups that were added
template <class Comm>
class rank_groups {
 public:
  explicit rank_groups(Comm& all) : all_(&all) {}

  unsigned rank() const { return all_->rank(); }
  unsigned size() const { return all_->size(); }
  Comm& all() { return *all_; }

  void add(rank_group const& among) {
    if (has(among)) return;
    auto const ranks = among.size * among.apart;
    detail::require(ranks > 0 && size() % ranks == 0, "rank_groups::add: the number of ranks must be a multiple of ",
                    ranks, ", got ", size());
    if constexpr (splits_alike<Comm>) {
      parts_.emplace_back(among, std::unique_ptr<Comm>(new Comm(all_->split(among.color(rank())))));
    } else {
      throw std::invalid_argument(detail::sentence(
          "rank_groups::add: groups need a communicator with split(unsigned) that returns its own type"));
    }
  }
  bool has(rank_group const& among) const { return among.is_all() || find(among) != parts_.end(); }

  /// The communicator of this rank's group, which was added.
  Comm& of(rank_group const& among) { return among.is_all() ? *all_ : *find(among)->second; }

 private:
  auto find(rank_group const& among) const {
    return std::find_if(parts_.begin(), parts_.end(), [&](auto const& part) { return part.first == among; });
  }

  Comm* all_;
  std::vector<std::pair<rank_group, std::unique_ptr<Comm>>> parts_;
};

/// With the groups that the rounds of `codec` ask for: what all_reduce_mean needs of such a codec.
template <class In, class Comm, class C>
rank_groups<Comm> make_rank_groups(Comm& comm, C const& codec, shape const& dims) {
  auto made = rank_groups<Comm>(comm);
  for (unsigned r = 0; r < detail::rounds(codec, dims, comm.size()); ++r)
    made.add(detail::transfer_of<In>(codec, r, dims, comm.size()).among);
  return made;
}

}  // namespace pith::inline v0
