// pith/codec/codec_base.hpp — the base class of codecs: the members that every codec has, with their defaults.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/detail/feedback_places.hpp>
#include <pith/codec/facets.hpp>
#include <pith/codec/measured.hpp>
#include <pith/core/executor.hpp>
#include <pith/core/shape.hpp>

#include <cstddef>

namespace pith { inline namespace PITH_ABI {

class sharding;  // pith/collective/sharding.hpp

/// The members that every codec has, with their defaults. A codec derives from codec_base and hides the members that
/// it changes. Argument-dependent lookup finds `|` through this class.
///
/// A stage also has `output<In>`, `name`, `encode` and `decode` (concept `stage`), and if it has states, `make_replicated`
/// or `make_local` (codec/state.hpp). The concept `collective` lists the other members of a codec with its own rounds.
/// codec/facets.hpp lists members that a codec may have in addition.
class codec_base {
 public:
  /// The properties that hold for every shape.
  static constexpr codec_traits traits = {};

  /// The shape of the emitted values. Its n is the maximum number of emitted values. Throws std::invalid_argument if
  /// the codec does not accept the shape.
  constexpr shape output_shape(shape const& dims) const { return dims; }
  /// The size of the side information for elements of type `In`.
  template <class In>
  constexpr std::size_t side_bytes(shape const&) const {
    return 0;
  }
  /// The size of the scratch memory that `encode` and `decode` take from the workspace.
  template <class In, executor E>
  constexpr std::size_t scratch_bytes(E const&, shape const&) const {
    return 0;
  }
  /// The byte offset of the count in the side information of a codec with a variable rate. The count is the number of
  /// emitted values.
  template <class In>
  constexpr std::size_t count_offset(shape const&) const {
    return 0;
  }

  /// True if, for this shape, decoding restores the input exactly. The residual is then zero.
  constexpr bool is_lossless(shape const&) const { return false; }
  /// True if the sizes of the codec's states depend on the rate. A state is then valid at one rate only.
  constexpr bool states_follow_rate() const { return false; }

  /// Throws std::invalid_argument if the states were made for another codec.
  void require_states(auto const&, auto const&) const {}
  /// Appends one feedback_place per feedback policy of the codec to a list. The places refer to the policies' parts of
  /// the replicated and the rank-local state. With this list, `change` of an exchange keeps residuals.
  void visit_feedback(detail::feedback_scope const&, auto&, auto&, auto&) const {}
  /// Multiplies the residual in the feedback state by a factor, after a change of the loss scale or the learning rate.
  template <executor E>
  void rescale(E const&, double, auto&, auto&) const {}

  /// The rates at which the codec measures the kept energy, which is |x|^2 - |x - D(C(x))|^2.
  rate_list measured_rates() const { return {}; }
  /// A pointer to the measured energies in the executor's memory; null if the codec cannot measure.
  double* energies_in(auto&) const { return nullptr; }

  /// The rule that divides a tensor into shards, if each rank receives only the mean of its shard; null if each rank
  /// receives the whole mean.
  sharding const* shards(shape const&) const { return nullptr; }
  /// True if a feedback policy of the codec changes the mean after an exchange (ext::after_mean).
  bool changes_mean() const { return false; }
  /// The number of rounds of an exchange over `ranks` ranks.
  unsigned rounds(shape const&, unsigned) const { return 1; }
  /// The number of rounds that may be in flight for one tensor. With two rounds in flight, produce(r) needs only the
  /// result of round r - 2, so that the transfer of round r - 1 overlaps with computation.
  unsigned depth() const { return 1; }
  /// For a codec with encode_from, which reads the input from a source (core/source.hpp) instead of a tensor: true if
  /// encode_from accepts the shape. A chain cannot encode from a source if a tile of a transform would span two blocks.
  template <executor E>
  constexpr bool can_encode_from(shape const&) const {
    return true;
  }
  /// For a codec with decode_ranks: true if this function may be called.
  constexpr bool can_decode_ranks() const { return true; }
};

}}  // namespace pith::PITH_ABI
