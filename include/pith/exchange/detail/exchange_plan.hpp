// pith/exchange/detail/exchange_plan.hpp — the groups of tensors that share transfers, and their offsets in buffers.
#pragma once

#include <pith/codec/rounds.hpp>
#include <pith/exchange/detail/narrow_mean.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The layout of the tensors' buffers in each round. Tensors with the same kind of transfer in a round form a group,
/// and one transfer moves the buffers of a group.
class exchange_plan {
 public:
  /// The position of one tensor's buffer in its group. `round` is the round of the codec that produces or absorbs the
  /// buffer. The plan may have more rounds than the codec.
  struct slot {
    std::size_t tensor, offset, bytes;
    unsigned round;
  };
  /// A group sends `pieces` buffers of `bytes` bytes each. The group's memory begins at the offset `out` in the memory
  /// for produced payloads, and at the offset `gathered` in the memory for received payloads.
  struct group {
    transport how;
    element_kind kind;
    std::uint32_t distance;
    subgroup among;
    unsigned ranks;  ///< number of ranks that take part in the transfer
    unsigned pieces;
    std::size_t bytes = 0, out = 0, gathered = 0;
    std::vector<slot> slots = {};
    std::size_t part = 0;  ///< the offset of this rank's part of a mean in the memory for such parts

    /// Whether the transfer is an all-gather of payloads over all ranks. Only these payloads can vary in size.
    bool is_gathered() const { return how == transport::all_gather && among.is_all() && !completes_mean(); }
    /// Whether the transfer is the all-gather of a mean's parts. The all-to-all of the mean precedes it by one round.
    bool completes_mean() const { return how == transport::all_gather && is_narrow(kind); }
    /// The number of bytes that a rank receives beside the buffer that it sends.
    std::size_t received_bytes() const {
      return how == transport::all_reduce_mean ? bytes : bytes * received_pieces(how, ranks);
    }
  };
  using round = std::vector<group>;

  /// A group has at most `max_bytes` bytes, or a single tensor, since MPI's counts are of type int. For an all-gather,
  /// the bytes include the payloads of all ranks.
  explicit exchange_plan(std::size_t max_bytes = std::size_t{1} << 30) : max_bytes_(max_bytes) {}

  /// Adds a round of a tensor's codec. The rounds of a tensor are added in order. A mean takes two rounds of the plan,
  /// so each later round of the codec is one round later in the plan.
  void add(std::size_t tensor, unsigned codec_round, transfer const& moves, unsigned ranks) {
    means_ = codec_round == 0 ? 0 : means_;
    auto const at = codec_round + means_;
    if (rounds_.size() <= at) rounds_.resize(at + 1);
    auto& to = group_of(rounds_[at], moves, ranks);
    to.slots.push_back({tensor, to.bytes, moves.bytes(), codec_round});
    to.bytes += align_up(moves.bytes(), section_alignment);
    means_ += moves.how == transport::all_reduce_mean;
  }

  /// Adds the all-gathers that complete means, and sets the offsets of the groups in each round. All rounds use the
  /// same memory.
  void place() {
    complete_means();
    for (auto& r : rounds_) {
      std::size_t out = 0, gathered = 0;
      for (auto& g : r) {
        g.out = out;
        g.gathered = gathered;
        out += align_up(g.bytes * g.pieces, scratch_alignment);
        gathered += align_up(g.received_bytes(), scratch_alignment);
      }
      out_bytes_ = std::max(out_bytes_, out);
      gathered_bytes_ = std::max(gathered_bytes_, gathered);
    }
  }

  /// Sets the sizes of all-gathered buffers to `bytes(tensor, round)`, which may not exceed the original sizes. Groups
  /// keep their offsets.
  template <class F>
  void resize(F const& bytes) {
    for (auto& r : rounds_) {
      for (auto& g : r) {
        if (!g.is_gathered()) continue;
        g.bytes = 0;
        for (auto& s : g.slots) {
          s.bytes = bytes(s.tensor, s.round);
          s.offset = g.bytes;
          g.bytes += align_up(s.bytes, section_alignment);
        }
      }
    }
  }

  std::vector<round> const& rounds() const { return rounds_; }
  std::size_t out_bytes() const { return out_bytes_; }
  std::size_t gathered_bytes() const { return gathered_bytes_; }
  /// The size of the memory for this rank's parts of means.
  std::size_t part_bytes() const { return part_bytes_; }

  /// The number of bytes per step that a rank passes to its communicator for one kind of transfer. If `among` is given,
  /// only transfers within that subgroup are included.
  std::size_t sent_bytes(transport how, std::optional<subgroup> among = {}) const {
    std::size_t bytes = 0;
    for (auto const& r : rounds_) {
      for (auto const& g : r) bytes += g.how == how && g.among == among.value_or(g.among) ? g.bytes * g.pieces : 0;
    }
    return bytes;
  }

 private:
  /// A mean takes two rounds: an all-to-all, after which each rank computes the mean of its part, and an all-gather of
  /// the parts. The parts divide the whole buffer of the group, regardless of the tensors in it.
  void complete_means() {
    for (std::size_t r = 0; r < rounds_.size(); ++r) {
      auto made = round();
      for (auto& g : rounds_[r]) {
        if (g.how != transport::all_reduce_mean) continue;
        g.bytes = divisible(g.bytes, g.ranks);
        g.part = part_bytes_;
        auto& parts = made.emplace_back(g);
        parts.how = transport::all_gather;
        parts.bytes = g.bytes / g.ranks;
        part_bytes_ += align_up(parts.bytes, scratch_alignment);
      }
      if (made.empty()) continue;
      rounds_.resize(std::max(rounds_.size(), r + 2));
      rounds_[r + 1].insert(rounds_[r + 1].end(), made.begin(), made.end());
    }
  }

  group& group_of(round& r, transfer const& moves, unsigned all) const {
    auto const ranks = moves.among.ranks(all);
    auto const copies = std::max(received_pieces(moves.how, ranks), 1u);
    auto const takes = [&](group const& g) {
      return g.how == moves.how && g.kind == moves.kind && g.distance == moves.distance && g.among == moves.among &&
             (g.bytes + moves.bytes()) * copies <= max_bytes_;
    };
    auto const found = std::find_if(r.begin(), r.end(), takes);
    if (found != r.end()) return *found;
    return r.emplace_back(group{moves.how, moves.kind, moves.distance, moves.among, ranks, pieces(moves.how, ranks)});
  }

  std::size_t max_bytes_;
  unsigned means_ = 0;  ///< the number of means among the rounds that were added for the current tensor
  std::vector<round> rounds_;
  std::size_t out_bytes_ = 0, gathered_bytes_ = 0, part_bytes_ = 0;
};

}}}  // namespace pith::PITH_ABI::detail
