// pith/exchange/detail/bucket_rounds.hpp — the rounds of one tensor bucket.
#pragma once

#include <pith/comm/sub_communicators.hpp>
#include <pith/exchange/detail/buckets.hpp>
#include <pith/exchange/detail/exact_gather.hpp>
#include <pith/exchange/detail/exchange_plan.hpp>
#include <pith/exchange/detail/exchanged_tensors.hpp>
#include <pith/exchange/detail/move_bytes.hpp>
#include <pith/exchange/detail/pending_transfers.hpp>
#include <pith/exec/lanes.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The memory of one round: `out` for produced payloads, and `gathered` for received payloads. With gather::exact,
/// payloads are received in `received` without their unused bytes, and are then expanded to `gathered`.
template <executor E>
struct round_memory {
  buffer<std::byte, E> out, gathered, received;
};

/// The plan and the rounds of one tensor bucket. The caller provides the memory of a round. `produce()` and `absorb()`
/// receive the pending transfers of another round in the argument `transfers`. Both functions test `transfers` after
/// each tensor, so that these transfers make progress. The work of a tensor is a lane.
template <real In, executor E, class Comm>
class bucket_rounds {
 public:
  using tensors = exchanged_tensors<In, E>;
  using memory = round_memory<E>;
  using pending_type = pending_transfers<Comm, E>;

  bucket_rounds(E const& exec, tensors const& all, std::vector<std::size_t> const& of, gather how) {
    for (auto const i : of) {
      if (all.groups().has(i)) joined_.push_back(i);
      if (all.groups().leader(i) != i) continue;
      auto const rounds = all.rounds(i);
      for (unsigned r = 0; r < rounds; ++r) plan_.add(i, r, all.moves(i, r), all.ranks());
      is_deep_ = is_deep_ && (rounds < 2 || all.depth(i) > 1);
    }
    plan_.place();
    if (plan_.part_bytes() > 0) is_deep_ = false;
    parts_ = buffer<std::byte, E>(exec, plan_.part_bytes());
    if (how == gather::exact) exact_.emplace(exec, plan_, all.specs(), all.codecs(), all.ranks());
  }

  /// Makes the sub-communicators that the transfers need. All ranks call this function.
  void connect(sub_communicators<Comm>& comms) const {
    for (auto const& r : plan_.rounds()) {
      for (auto const& g : r) comms.add(g.among);
    }
  }

  exchange_plan const& plan() const { return plan_; }
  unsigned rounds() const { return static_cast<unsigned>(plan_.rounds().size()); }

  /// Whether `produce()` of a round can run before `absorb()` of the previous round.
  bool is_deep() const { return is_deep_; }

  /// Sets the payload sizes of this step, which depend on the tensors' capacities in this step. The plan has space for
  /// full capacities, so a later step can use any capacities.
  void begin_step(tensors const& all) {
    if (all.is_predicted()) plan_.resize([&](std::size_t tensor, unsigned r) { return all.moved_bytes(tensor, r); });
  }

  /// The number of workspace bytes for produce() and absorb().
  std::size_t scratch_bytes(E const& exec, tensors const& all) const {
    std::size_t most = 0;
    for (auto const& r : plan_.rounds()) {
      std::size_t largest = 0, total = 0;
      for (auto const& g : r) {
        for (auto const& s : g.slots) {
          auto const bytes = scratch_for<std::byte>(scratch_bytes(exec, all, g, s));
          largest = std::max(largest, bytes);
          total += bytes;
        }
      }
      most = std::max(most, lanes<E>::are_recorded ? total : largest);
    }
    return most;
  }

  void produce(E const& exec, tensors& all, unsigned round, memory const& at, lanes<E>& lanes, workspace_on<E>& ws,
               pending_type& transfers) const {
    if (round == 0 && !joined_.empty()) all.join(exec, joined_);
    auto const scope = ws.mark();
    auto const work = lanes.record(exec);
    for (auto const& g : plan_.rounds()[round]) {
      if (g.completes_mean()) continue;
      for (auto const& s : g.slots) {
        auto&& own = scratch(exec, all, g, s, ws);
        produce(work.next_lane(), all, g, s, out(g, at), own);
        transfers.test(exec);
      }
    }
    work.run();
  }
  /// Starts the transfers of a round. Returns the number of bytes that this rank sends in all-gathers.
  std::size_t start(E const& exec, sub_communicators<Comm>& comms, unsigned round, memory const& at,
                    pending_type& transfers) {
    auto const& groups = plan_.rounds()[round];
    std::size_t sent = 0;
    if (is_compacted(round))
      sent = exact_->start(exec, comms.all(), groups, round, at.out.data(), at.gathered.data(), at.received.data(),
                           transfers);
    for (auto const& g : groups) {
      if (is_compacted(round) && g.is_gathered()) continue;
      transfers.add(move(exec, comms.of(g.among), g, at));
      if (g.how == transport::all_gather) sent += g.bytes;
    }
    return sent;
  }
  void absorb(E const& exec, tensors& all, unsigned round, memory const& at, lanes<E>& lanes, workspace_on<E>& ws,
              pending_type& transfers) {
    auto const& groups = plan_.rounds()[round];
    if (is_compacted(round)) exact_->expand(exec, groups, round, at.received.data(), at.gathered.data());
    auto const scope = ws.mark();
    auto const work = lanes.record(exec);
    for (auto const& g : groups) {
      if (g.how == transport::all_reduce_mean) {
        average(work.next_lane(), g.kind, gathered(g, at), g.ranks, part(g).data());
        continue;
      }
      for (auto const& s : g.slots) {
        auto&& own = scratch(exec, all, g, s, ws);
        all.absorb(work.next_lane(), s.tensor, s.round, g.is_gathered(), received(g, s, at), own);
        transfers.test(exec);
      }
    }
    work.run();
    if (round + 1 == rounds() && !joined_.empty()) all.part(exec, joined_);
  }

 private:
  using group = exchange_plan::group;
  using slot = exchange_plan::slot;

  static std::size_t scratch_bytes(E const& exec, tensors const& all, group const& g, slot const& s) {
    auto const staged = g.pieces > 1 ? scratch_for<std::byte>(s.bytes * g.pieces) : 0;
    return all.scratch_bytes(exec, s.tensor) + staged;
  }
  /// The workspace of a tensor. Recorded lanes each have a part of `ws`.
  static decltype(auto) scratch([[maybe_unused]] E const& exec, [[maybe_unused]] tensors const& all,
                                [[maybe_unused]] group const& g, [[maybe_unused]] slot const& s, workspace_on<E>& ws) {
    if constexpr (lanes<E>::are_recorded) {
      return workspace_on<E>(ws.take_bytes(scratch_bytes(exec, all, g, s)));
    } else {
      return (ws);
    }
  }

  bool is_compacted(unsigned round) const { return exact_ && exact_->has_counts(round); }

  static span_on<E, std::byte> out(group const& g, memory const& at) {
    return at.out.view().subspan(g.out, g.bytes * g.pieces);
  }
  static span_on<E, std::byte> gathered(group const& g, memory const& at) {
    return at.gathered.view().subspan(g.gathered, g.received_bytes());
  }
  /// Returns this rank's part of a mean.
  span_on<E, std::byte> part(group const& g) const {
    return parts_.view().subspan(g.part, g.how == transport::all_reduce_mean ? g.bytes / g.ranks : g.bytes);
  }

  /// Starts the transfer of a group.
  auto move(E const& exec, Comm& comm, group const& g, memory const& at) const {
    auto const how = g.how == transport::all_reduce_mean ? transport::all_to_all : g.how;
    return move_bytes(exec, comm, how, g.kind, g.distance, g.completes_mean() ? part(g) : out(g, at), gathered(g, at));
  }
  /// The data that a tensor receives in the transfer of a group.
  static received_on<E> received(group const& g, slot const& s, memory const& at) {
    if (g.completes_mean()) return {gathered(g, at).subspan(s.offset, s.bytes)};
    auto const in = moved<E>(g.how, out(g, at), gathered(g, at), g.ranks);
    if (is_separate(g.how)) return {in.bytes.subspan(s.offset), in.stride};
    return {in.bytes.subspan(s.offset, s.bytes)};
  }

  /// Produces the payload of a tensor. If `g.pieces` > 1, the payload is divided into `g.pieces` pieces, which begin
  /// `g.bytes` bytes apart in the group's buffer.
  static void produce(E const& exec, tensors& all, group const& g, slot const& s, span_on<E, std::byte> to,
                      workspace_on<E>& ws) {
    if (g.pieces == 1) return all.produce(exec, s.tensor, s.round, to.subspan(s.offset, s.bytes), ws);
    auto const scope = ws.mark();
    auto const size = s.bytes * g.pieces;
    auto const staged = ws.take_bytes(size);
    all.produce(exec, s.tensor, s.round, staged, ws);
    for (unsigned r = 0; r < g.pieces; ++r)
      exec.copy(to.data() + r * g.bytes + s.offset, staged.data() + r * s.bytes, s.bytes);
  }

  exchange_plan plan_;
  std::vector<std::size_t> joined_;  ///< the tensors that flat codecs join
  bool is_deep_ = true;
  buffer<std::byte, E> parts_;
  std::optional<exact_gather<In, E>> exact_;
};

}}}  // namespace pith::PITH_ABI::detail
