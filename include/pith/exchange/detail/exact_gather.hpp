// pith/exchange/detail/exact_gather.hpp — an all-gather of the used bytes of payloads, with a host wait for the counts.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/error.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/gather.hpp>
#include <pith/exchange/detail/pending_transfers.hpp>
#include <pith/exec/lanes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// All-gathers the payloads of a round without their unused bytes: first the counts of all payloads, then the used
/// bytes, with one transfer per exchange_plan::group. In a transfer of used bytes, every rank sends the same number of
/// bytes: the largest number of used bytes on any rank. Each rank first copies its used bytes, without gaps, to the
/// memory that a padded all-gather would write. Received bytes are written to additional memory of the same size.
template <real In, executor E>
class exact_gather {
 public:
  using group = exchange_plan::group;

  exact_gather(E const& exec, exchange_plan const& plan, std::vector<tensor_spec> const& tensors,
               std::vector<any_codec<In, E>> const& codecs, unsigned ranks)
      : ranks_(ranks) {
    std::size_t most = 0;
    for (auto const& groups : plan.rounds()) {
      auto& r = rounds_.emplace_back();
      for (auto const& g : groups) add(r, g, tensors, codecs);
      r.counts.resize(r.places.size() * ranks);
      most = std::max(most, r.places.size());
    }
    mine_ = buffer<std::uint32_t, E>(exec, most);
    all_ = buffer<std::uint32_t, E>(exec, most * ranks);
  }

  bool has_counts(unsigned in_round) const { return !rounds_[in_round].places.empty(); }

  /// All-gathers the counts of the payloads in a round, waits for all ranks' counts, and starts the all-gathers of the
  /// payloads. This rank's payloads are at `out`. Returns the number of bytes that this rank sends.
  template <class Comm>
  std::size_t start(E const& exec, Comm& comm, std::vector<group> const& groups, unsigned in_round, std::byte* out,
                    std::byte* compacted, std::byte* received, pending_transfers<Comm, E>& to) {
    auto& r = rounds_[in_round];
    gather_counts(exec, comm, r, out);
    auto sent = r.places.size() * sizeof(std::uint32_t);
    for_each_group(r, groups, [&](group const& g, span<packet const> slots) {
      auto const bytes = largest(r, slots);
      compact(exec, r, slots, comm.rank(), out, compacted + g.gathered);
      to.add(gather_bytes(exec, comm, compacted + g.gathered, bytes, received + g.gathered));
      sent += bytes;
    });
    return sent;
  }

  /// Copies the received payloads to the offsets that they would have after a padded all-gather.
  void expand(E const& exec, std::vector<group> const& groups, unsigned in_round, std::byte const* received,
              std::byte* gathered) {
    auto const& r = rounds_[in_round];
    auto const work = expanded_.record(exec);
    for_each_group(r, groups, [&](group const& g, span<packet const> slots) {
      expand(work, r, slots, g, largest(r, slots), received + g.gathered, gathered + g.gathered);
    });
    work.run();
  }

 private:
  using recording = typename lanes<E>::recording;

  /// The payload of one tensor. `out` is the payload's offset in the produced bytes, and `offset` is the payload's
  /// offset in the group. The payload has `places` counts, which begin at index `first` in the list of a rank's counts.
  struct packet {
    any_codec<In, E> codec;
    tensor_spec tensor;
    std::size_t out, offset, bytes, first, places;
  };
  struct place {
    std::size_t out;
    std::uint64_t most;
    std::string tensor;
  };
  struct round {
    std::vector<packet> packets;
    std::vector<place> places;
    std::vector<std::uint32_t> counts = {};  ///< the counts of all ranks, rank by rank
  };

  /// Calls f(group, packets) for each all-gathered group and its packets.
  template <class F>
  static void for_each_group(round const& r, std::vector<group> const& groups, F const& f) {
    auto const* packets = r.packets.data();
    for (auto const& g : groups) {
      if (!g.is_gathered()) continue;
      f(g, span<packet const>(packets, g.slots.size()));
      packets += g.slots.size();
    }
  }

  static void add(round& r, group const& g, std::vector<tensor_spec> const& tensors,
                  std::vector<any_codec<In, E>> const& codecs) {
    if (!g.is_gathered()) return;
    for (auto const& s : g.slots) {
      auto const& tensor = tensors[s.tensor];
      auto const found = counts_of<In>(codecs[s.tensor], tensor.dims);
      r.packets.push_back(
          {codecs[s.tensor], tensor, g.out + s.offset, s.offset, s.bytes, r.places.size(), found.size()});
      for (auto const& count : found) r.places.push_back({g.out + s.offset + count.at, count.most, tensor.name});
    }
  }

  template <class Comm>
  gather_request<Comm, E> gather_bytes(E const& exec, Comm& comm, std::byte const* mine, std::size_t bytes,
                                       std::byte* all) const {
    return comm.all_gather(exec, span_on<E, std::byte const>(mine, bytes), span_on<E, std::byte>(all, bytes * ranks_));
  }

  template <class Comm>
  void gather_counts(E const& exec, Comm& comm, round& r, std::byte const* out) {
    auto const n = r.places.size(), bytes = n * sizeof(std::uint32_t);
    auto const work = counted_.record(exec);
    for (std::size_t i = 0; i < n; ++i)
      work.next_lane().copy(mine_.data() + i, out + r.places[i].out, sizeof(std::uint32_t));
    work.run();
    gather_bytes(exec, comm, reinterpret_cast<std::byte const*>(mine_.data()), bytes,
                 reinterpret_cast<std::byte*>(all_.data()))
        .wait(exec);
    exec.download(r.counts.data(), all_.data(), bytes * ranks_);
    for (unsigned rank = 0; rank < ranks_; ++rank) {
      for (std::size_t i = 0; i < n; ++i) require_count(r.places[i], rank, r.counts[rank * n + i]);
    }
  }
  static void require_count(place const& p, unsigned rank, std::uint32_t count) {
    if (count <= p.most) return;
    throw communication_error(sentence("gradient_exchange: the count of tensor \"", p.tensor, "\" from rank ", rank,
                                       " must be at most ", p.most, ", got ", count, ": the message is damaged"));
  }

  /// Calls f with each used piece of a rank's payload of one tensor.
  template <class F>
  void for_each_piece(round const& r, packet const& p, unsigned rank, F const& f) const {
    if (p.places == 0) return f({0, p.bytes});
    auto walk = piece_walk<F>(r.counts.data() + rank * r.places.size() + p.first, f);
    visit_pieces<In>(p.codec, p.tensor.dims, walk);
  }

  std::size_t largest(round const& r, span<packet const> slots) const {
    std::size_t most = 0;
    for (unsigned rank = 0; rank < ranks_; ++rank) {
      std::size_t used = 0;
      for (auto const& p : slots) for_each_piece(r, p, rank, [&](payload_piece const& piece) { used += piece.used; });
      most = std::max(most, used);
    }
    return align_up(most, section_alignment);
  }

  void compact(E const& exec, round const& r, span<packet const> slots, unsigned rank, std::byte const* out,
               std::byte* to) {
    auto const work = compacted_.record(exec);
    for (auto const& p : slots) {
      for_each_piece(r, p, rank, [&](payload_piece const& piece) {
        work.next_lane().copy(to, out + p.out + piece.at, piece.used);
        to += piece.used;
      });
    }
    work.run();
  }
  void expand(recording const& work, round const& r, span<packet const> slots, group const& g, std::size_t stride,
              std::byte const* received, std::byte* gathered) const {
    for (unsigned rank = 0; rank < ranks_; ++rank) {
      std::byte const* from = received + rank * stride;
      for (auto const& p : slots) {
        auto* const to = gathered + rank * g.bytes + p.offset;
        auto const& exec = work.next_lane();
        exec.fill(to, std::byte{}, p.bytes);
        for_each_piece(r, p, rank, [&](payload_piece const& piece) {
          exec.copy(to + piece.at, from, piece.used);
          from += piece.used;
        });
      }
    }
  }

  unsigned ranks_;
  std::vector<round> rounds_;
  lanes<E> counted_, compacted_, expanded_;
  buffer<std::uint32_t, E> mine_, all_;
};

}}}  // namespace pith::PITH_ABI::detail
