// pith/exec/detail/launch_list.hpp — recorded kernels of independent lanes, merged into few launches.
#pragma once

#include <pith/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The kernels for bodies of one type: for one body, which is an argument, and for the bodies of a lane_table.
struct body_kernels {
  void const* one;
  void const* many;
};

/// The blocks and the bodies of one launch for several lanes. The lane `l` runs its body for the blocks first[l] to
/// first[l + 1] - 1 of the grid, or to the last block.
struct lane_table {
  static constexpr std::size_t alignment = 16;

  std::uint32_t const* first;
  std::byte const* bodies;
  std::uint32_t lanes;

  /// The number of bytes between two bodies.
  static constexpr std::size_t stride(std::size_t bytes) { return align_up(bytes, alignment); }
  /// The offset of the bodies in a table, which begins with `first`.
  static constexpr std::size_t bodies_offset(std::size_t lanes) {
    return align_up(lanes * sizeof(std::uint32_t), alignment);
  }
};

/// Kernels of lanes. A lane is a sequence of kernels that must run in this order. The lanes share no memory that they
/// write, so kernels of different lanes may run in any order. `merge` makes one launch of equal kernels of several
/// lanes. Kernels are equal if their bodies have one type.
class launch_list {
 public:
  /// One launch. `body` is the offset of the first lane's body in bodies(). `table` is the offset of the lane_table's
  /// memory in tables(), for more than one lane.
  struct launch {
    body_kernels kernels;
    std::size_t shared_bytes;
    std::uint64_t blocks;
    std::uint32_t lanes;
    std::size_t body, table;
  };

  bool empty() const { return records_.empty(); }

  /// The kernels after this call belong to a new lane.
  void begin_lane() { lanes_.push_back({records_.size(), records_.size()}); }
  /// Adds a kernel to the current lane, and copies its body.
  void add(body_kernels const& kernels, std::size_t shared_bytes, std::uint64_t blocks, void const* body,
           std::size_t bytes) {
    auto const at = bodies_.size();
    bodies_.resize(at + lane_table::stride(bytes));
    std::memcpy(bodies_.data() + at, body, bytes);
    records_.push_back({number_of(kernels), shared_bytes, bytes, blocks, at});
    lanes_.back().end = records_.size();
  }

  /// Builds the launches and their tables, and removes the kernels. A launch has at most `most_blocks` blocks, and each
  /// kernel has at most that many. A kernel is launched when no later kernel of a lane has its type, if there is such a
  /// kernel; otherwise, the next kernel of the longest lane is launched. So equal lanes need as many launches as one
  /// lane.
  void merge(std::uint64_t most_blocks) {
    launches_.clear();
    tables_.clear();
    count_left();
    for (auto left = records_.size(); left > 0; left -= launches_.back().lanes) add_launch(next_kernel(), most_blocks);
    records_.clear();
    lanes_.clear();
    begin_lane();
  }
  std::vector<launch> const& launches() const { return launches_; }
  std::vector<std::byte> const& tables() const { return tables_; }
  std::vector<std::byte> const& bodies() const { return bodies_; }

  /// Removes all kernels and their bodies. Later kernels belong to a new lane.
  void clear() {
    records_.clear();
    bodies_.clear();
    lanes_.clear();
    begin_lane();
  }

 private:
  struct record {
    std::uint32_t kernel;  ///< an index into kernels_
    std::size_t shared_bytes, body_bytes;
    std::uint64_t blocks;
    std::size_t body;  ///< the offset in bodies_
  };
  /// The records of a lane that have no launch yet.
  struct lane {
    std::size_t next, end;
  };

  std::uint32_t number_of(body_kernels const& kernels) {
    auto const found =
        std::find_if(kernels_.begin(), kernels_.end(), [&](auto const& k) { return k.one == kernels.one; });
    auto const number = static_cast<std::uint32_t>(found - kernels_.begin());
    if (found == kernels_.end()) kernels_.push_back(kernels);
    return number;
  }
  void count_left() {
    left_.assign(kernels_.size(), 0);
    for (auto const& r : records_) ++left_[r.kernel];
  }
  std::uint32_t next_kernel() {
    heads_.assign(kernels_.size(), 0);
    lane const* longest = nullptr;
    for (auto const& l : lanes_) {
      if (l.next == l.end) continue;
      ++heads_[records_[l.next].kernel];
      if (longest == nullptr || l.end - l.next > longest->end - longest->next) longest = &l;
    }
    for (std::uint32_t k = 0; k < kernels_.size(); ++k) {
      if (heads_[k] > 0 && heads_[k] == left_[k]) return k;
    }
    return records_[longest->next].kernel;
  }
  /// Adds a launch of the lanes whose next kernel is `kernel`.
  void add_launch(std::uint32_t kernel, std::uint64_t most_blocks) {
    chosen_.clear();
    std::uint64_t blocks = 0;
    for (auto& l : lanes_) {
      if (l.next == l.end || records_[l.next].kernel != kernel) continue;
      if (blocks + records_[l.next].blocks > most_blocks) continue;
      blocks += records_[l.next].blocks;
      chosen_.push_back(l.next++);
    }
    left_[kernel] -= chosen_.size();
    auto const& one = records_[chosen_.front()];
    auto const lanes = static_cast<std::uint32_t>(chosen_.size());
    launches_.push_back({kernels_[kernel], one.shared_bytes, blocks, lanes, one.body, lanes > 1 ? add_table() : 0});
  }
  std::size_t add_table() {
    auto const at = tables_.size(), stride = lane_table::stride(records_[chosen_.front()].body_bytes);
    auto const bodies = at + lane_table::bodies_offset(chosen_.size());
    tables_.resize(bodies + chosen_.size() * stride);
    std::uint32_t first = 0;
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      auto const& r = records_[chosen_[i]];
      std::memcpy(tables_.data() + at + i * sizeof first, &first, sizeof first);
      std::memcpy(tables_.data() + bodies + i * stride, bodies_.data() + r.body, r.body_bytes);
      first += static_cast<std::uint32_t>(r.blocks);
    }
    return at;
  }

  std::vector<body_kernels> kernels_;
  std::vector<record> records_;
  std::vector<lane> lanes_;
  std::vector<std::byte> bodies_;
  std::vector<launch> launches_;
  std::vector<std::byte> tables_;
  std::vector<std::size_t> left_, heads_;  ///< numbers of records without a launch: all, and the next ones of lanes
  std::vector<std::size_t> chosen_;        ///< the records of one launch
};

}}}  // namespace pith::PITH_ABI::detail
