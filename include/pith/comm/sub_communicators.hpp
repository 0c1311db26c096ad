// pith/comm/sub_communicators.hpp — a communicator and the sub-communicators of its subgroups.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/error.hpp>
#include <pith/core/transfer.hpp>

#include <algorithm>
#include <concepts>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A communicator with one sub-communicator for each subgroup that was passed to `add()`.
///
///   requires    a communicator that outlives this object. add() of a subgroup needs split(unsigned). The product
///               size x stride of a subgroup divides the number of ranks (std::invalid_argument). All ranks call add()
///               with the same subgroups in the same order; one thread at a time
///   complexity  add() makes one split and one allocation per new subgroup; of() searches linearly
///   errors      if add() throws, the sub-communicators are unchanged
///   owns        the sub-communicators
template <class Comm>
class sub_communicators {
 public:
  explicit sub_communicators(Comm& all) : all_(&all) {}

  unsigned rank() const { return all_->rank(); }
  unsigned size() const { return all_->size(); }
  Comm& all() { return *all_; }
  Comm const& all() const { return *all_; }

  void add(subgroup const& among) {
    if (has(among)) return;
    auto const ranks = among.size * among.stride;
    detail::require(ranks > 0 && size() % ranks == 0,
                    "sub_communicators::add: the number of ranks must be a multiple of ", ranks, ", got ", size());
    if constexpr (detail::has_split<Comm>) {
      parts_.emplace_back(among, std::unique_ptr<Comm>(new Comm(all_->split(among.color(rank())))));
    } else {
      throw std::invalid_argument(detail::sentence(
          "sub_communicators::add: groups need a communicator with split(unsigned) that returns its own type"));
    }
  }
  bool has(subgroup const& among) const { return among.is_all() || find(among) != parts_.end(); }

  /// The communicator of the ranks in this rank's subgroup. `among` must have been passed to `add()`.
  Comm& of(subgroup const& among) { return among.is_all() ? *all_ : *find(among)->second; }

 private:
  auto find(subgroup const& among) const {
    return std::find_if(parts_.begin(), parts_.end(), [&](auto const& part) { return part.first == among; });
  }

  Comm* all_;
  std::vector<std::pair<subgroup, std::unique_ptr<Comm>>> parts_;
};

}}  // namespace pith::PITH_ABI
