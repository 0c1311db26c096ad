// tests/fuzz/spoiled_group.hpp — one rank of a group that others damage: a communicator without threads.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/comm/detail/arguments.hpp>

#include <cstddef>
#include <type_traits>

#include "edit.hpp"

namespace fuzz {

/// All other ranks send what this one sends, and add zeros to sums. What arrives from them is edited as an input says.
/// split() of four ranks returns a group of two: rank 0 becomes its rank 0, and rank 3 its rank 1.
class spoiled_group {
 public:
  spoiled_group(unsigned rank, unsigned size, input& from) : rank_(rank), size_(size), from_(&from) {}

  unsigned rank() const { return rank_; }
  unsigned size() const { return size_; }

  template <pith::executor E>
  pith::completed all_gather(E const&, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    arguments().all_gather(mine.size(), all.size());
    return arrive(mine, all);
  }
  template <pith::executor E>
  pith::completed all_to_all(E const&, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    arguments().all_to_all(mine.size(), all.size());
    return arrive(mine.subspan(rank_ * (mine.size() / size_), mine.size() / size_), all);
  }
  template <pith::executor E>
  pith::completed send_recv(E const&, pith::span<std::byte const> mine, unsigned to, pith::span<std::byte> theirs,
                            unsigned from) {
    arguments().send_recv(mine.size(), to, theirs.size(), from);
    copy(mine, theirs);
    if (from != rank_) spoil(theirs);
    return {};
  }
  template <pith::executor E, class T>
  pith::completed all_reduce(E const&, pith::span<T> x, pith::reduction) {
    spoil({reinterpret_cast<std::byte*>(x.data()), x.size_bytes()});
    return {};
  }
  template <pith::executor E>
  pith::completed broadcast(E const&, pith::span<std::byte> x, unsigned root) {
    arguments().peer("broadcast", "root", root);
    if (root != rank_) spoil(x);
    return {};
  }
  spoiled_group split(unsigned) const { return {rank_ > 0 ? 1u : 0u, 2, *from_}; }

 private:
  pith::detail::collective_arguments arguments() const { return {"spoiled", rank_, size_}; }

  static void copy(pith::span<std::byte const> from, pith::span<std::byte> to) {
    auto const size = std::min(from.size(), to.size());
    if (size > 0) std::memmove(to.data(), from.data(), size);
  }
  /// One piece of each rank, this one's as it was sent.
  pith::completed arrive(pith::span<std::byte const> piece, pith::span<std::byte> all) {
    for (unsigned r = 0; r < size_; ++r) copy(piece, all.subspan(r * piece.size(), piece.size()));
    spoil(all);
    copy(piece, all.subspan(rank_ * piece.size(), piece.size()));
    return {};
  }
  void spoil(pith::span<std::byte> received) {
    for (auto edits = from_->take_byte() % 4; edits > 0; --edits) edit(received, *from_);
  }

  unsigned rank_, size_;
  input* from_;
};

}  // namespace fuzz
