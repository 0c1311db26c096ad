// pith/core/draws.hpp — the inputs of each random number: seed, step, tensor, rank, hop, stage.
#pragma once

#include <pith/core/random.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// The reserved value of `encoding_id::rank` for random numbers that are equal on all ranks.
inline constexpr std::uint16_t shared_rank = 0xffff;

/// Identifies a tensor. A tensor's random numbers depend on this id and on the step.
struct tensor_id {
  std::uint64_t seed = 0;
  std::uint32_t tensor = 0;  ///< the tensor's number, below 2^24
  std::uint16_t rank = 0;

  friend bool operator==(tensor_id const&, tensor_id const&) = default;
};

/// Identifies one encoding. Each random number is a pure function of these fields, so it does not depend on the
/// executor, thread count or grid.
struct encoding_id {
  std::uint64_t const* step = nullptr;  ///< in the executor's memory, so that a replayed graph reads the current step
  std::uint64_t seed = 0;
  std::uint64_t first = 0;   ///< offset of the first element within its tensor; a multiple of 8
  std::uint32_t tensor = 0;  ///< the tensor's number, 24 bits
  std::uint16_t rank = 0;    ///< the rank that encodes, also when another rank decodes
  std::uint8_t hop = 0;      ///< number of this encoding among the encodings of one tensor in one step, 3 bits
  std::uint8_t stage = 0;    ///< the stage's position in its chain, 5 bits

  /// A pointer to the word that team::is_last uses; null if no codec_state made the id. The word is 0 between kernels.
  /// Random numbers do not depend on this pointer.
  std::uint32_t* arrived = nullptr;

  bool is_version_0 = false;  ///< true for the payload of a frame of wire version 0
};

constexpr encoding_id shared(encoding_id id) {
  id.rank = shared_rank;
  return id;
}

namespace detail {
inline constexpr std::size_t max_stages = 32;  ///< of a chain: encoding_id::stage has 5 bits
}

constexpr encoding_id next_stage(encoding_id id) {
  ++id.stage;
  return id;
}

/// The random numbers of one encoding: Philox4x32-7. The key is the seed. The counter has 40 bits for the random block,
/// 24 for the tensor, 40 for the step, 16 for the rank, 3 for the hop and 5 for the stage.
class draws {
 public:
  PITH_HD explicit constexpr draws(encoding_id const& id)
      : step_(id.step),
        first_block_(id.first / 8),
        key_{{static_cast<std::uint32_t>(id.seed), static_cast<std::uint32_t>(id.seed >> 32)}},
        tensor_(id.tensor << 8),
        place_(static_cast<std::uint32_t>(id.rank) << 8 | (id.hop & 7u) << 24 |
               static_cast<std::uint32_t>(id.stage) << 27) {}

  /// The random block that elements 8 i .. 8 i + 7 share.
  PITH_HD constexpr random_block operator()(std::uint64_t i) const { return philox4x32_7(counter(i), key_); }
  PITH_HD static constexpr int rounds() { return 7; }

  PITH_HD constexpr random_block counter(std::uint64_t i) const {
    auto const block = first_block_ + i;
    auto const step = *step_;
    return {{static_cast<std::uint32_t>(block), (static_cast<std::uint32_t>(block >> 32) & 0xffu) | tensor_,
             static_cast<std::uint32_t>(step), (static_cast<std::uint32_t>(step >> 32) & 0xffu) | place_}};
  }
  PITH_HD constexpr philox_key key() const { return key_; }

  /// True if the counters of blocks i .. i + count - 1 differ only in the first word.
  PITH_HD constexpr bool in_one_word(std::uint64_t i, std::uint32_t count) const {
    return static_cast<std::uint32_t>(first_block_ + i) <= 0xffffffffu - (count - 1);
  }

 private:
  std::uint64_t const* step_;
  std::uint64_t first_block_;
  philox_key key_;
  std::uint32_t tensor_;
  std::uint32_t place_;
};

/// The random numbers that a decoder draws again: Philox4x32-10 for payloads of wire version 0.
class versioned_draws : public draws {
 public:
  PITH_HD explicit constexpr versioned_draws(encoding_id const& id) : draws(id), is_version_0_(id.is_version_0) {}

  PITH_HD constexpr random_block operator()(std::uint64_t i) const {
    return is_version_0_ ? philox4x32_10(counter(i), key()) : draws::operator()(i);
  }
  PITH_HD constexpr int rounds() const { return is_version_0_ ? 10 : 7; }

 private:
  bool is_version_0_;
};

}}  // namespace pith::PITH_ABI
