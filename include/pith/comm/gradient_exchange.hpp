// pith/comm/gradient_exchange.hpp — the gradients of a model's tensors, exchanged by one call a step.
#pragma once

#include <pith/comm/agreement.hpp>
#include <pith/comm/all_reduce_mean.hpp>
#include <pith/comm/exact_gather.hpp>
#include <pith/comm/exchange_plan.hpp>
#include <pith/comm/gather.hpp>
#include <pith/comm/policy.hpp>
#include <pith/comm/predicted_gather.hpp>
#include <pith/core/any_codec.hpp>
#include <pith/core/saving.hpp>
#include <pith/version.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pith::inline v0 {

/// Owns everything that exchanging a model's gradients takes: a codec and its state for each tensor, memory, and the
/// plan by which all tensors' payloads travel together, one transfer a round and kind.
///
///   needs    equal tensors, codecs and seed on all ranks (agreement_error when it is built)
///   keeps    the codecs' states; export_state saves them, import_state puts them back
///   cost     memory for one payload of all tensors and `size()` gathered ones, with gather::exact twice the latter; a
///            step allocates nothing. The transfers of a step do not depend on the number of tensors: with power_sgd one
///            sum of all P, and of what travels as it is, and one of all Q
template <real In, executor E, class Comm>
class gradient_exchange {
 public:
  using codec_type = any_codec<In, E>;

  /// `policy(tensor)` is the codec of a tensor.
  template <policy_for<In, E> Policy>
  gradient_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                    std::uint64_t seed = 0, gather how = gather::padded)
      : exec_(exec), comm_(&comm), tensors_(std::move(tensors)), how_(how) {
    explain_communicator<Comm, E>();
    for (auto const& t : tensors_) codecs_.push_back(static_cast<codec_type>(policy(t)));
    detail::require_agreement(exec_, comm, agreement(seed));
    make_states(seed);
    make_plan();
    if (how == gather::exact) exact_.emplace(exec_, plan_, tensors_, codecs_, comm.size());
    if (how == gather::predicted) predicted_.emplace(exec_, tensors_, codecs_);
  }

  /// One codec for all tensors.
  gradient_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, codec_type const& codec,
                    std::uint64_t seed = 0, gather how = gather::padded)
      : gradient_exchange(
            exec, comm, std::move(tensors), [&codec](tensor_spec const&) { return codec; }, seed, how) {}

  std::vector<tensor_spec> const& tensors() const { return tensors_; }
  std::vector<codec_type> const& codecs() const { return codecs_; }

  /// The elements of all tensors.
  std::uint64_t size() const { return size_; }

  /// The bytes that a rank hands to the communicator in a step, padding included; gathered ones travel to all others,
  /// scattered ones to one rank each. Where they vary they are those of the last step, and before the first one the most.
  std::size_t gathered_bytes() const { return gathered_bytes_; }
  std::size_t scattered_bytes() const { return plan_.sent_bytes(transport::all_to_all); }
  std::size_t summed_bytes() const { return plan_.sent_bytes(transport::sum) + plan_.sent_bytes(transport::max); }

  /// Replaces gradients, all tensors one after another, by their means over the ranks, as far as the codecs keep them.
  void all_reduce_mean(span_on<E, In> gradients) {
    detail::require_size("gradient_exchange", "the elements of all gradients", size_, gradients.size());
    if (how_ != gather::padded) detail::require_no_capture(exec_, how_);
    auto ws = workspace_on<E>(scratch_.view());
    for (auto& state : states_) state.advance(exec_);
    begin_step();
    for (unsigned round = 0; round < plan_.rounds().size(); ++round) {
      auto const& groups = plan_.rounds()[round];
      for (auto const& g : groups) produce(g, round, gradients, ws);
      move(groups, round);
      for (auto const& g : groups) absorb(g, round, gradients, ws);
    }
    if (predicted_) predicted_->end_step(exec_);
  }

  /// Multiplies all that is fed back by a factor: the loss scale or the learning rate changed.
  void rescale(double factor) {
    for (std::size_t i = 0; i < states_.size(); ++i)
      codecs_[i].rescale(exec_, factor, states_[i].agreed(), states_[i].local());
  }

  /// The bytes of all states of this rank.
  std::vector<std::byte> export_state() const {
    auto saved = detail::field_saver<E>(exec_);
    saved.bytes.resize(sizeof fingerprint_);
    std::memcpy(saved.bytes.data(), &fingerprint_, sizeof fingerprint_);
    for (auto& state : states_) state.fields(saved);
    return std::move(saved.bytes);
  }

  /// Puts back what export_state of an equal exchange returned, on all ranks; it may have gathered otherwise. With
  /// gather::predicted the next step has full capacity.
  void import_state(span<std::byte const> bytes) {
    auto size = detail::field_counter();
    for (auto& state : states_) state.fields(size);
    detail::require_size("import_state", "the bytes of the state", sizeof fingerprint_ + size.bytes, bytes.size());
    detail::require(std::memcmp(bytes.data(), &fingerprint_, sizeof fingerprint_) == 0,
                    "import_state: the state is of another rank or other tensors, codecs, seed or number of ranks");
    auto loaded = detail::field_loader<E>(exec_, bytes.data() + sizeof fingerprint_);
    for (auto& state : states_) state.fields(loaded);
    if (predicted_) predicted_->forget();
  }

 private:
  using group = detail::exchange_plan::group;

  detail::agreement agreement(std::uint64_t seed) {
    auto kind = digest(), tensors = digest(), codecs = digest();
    kind << element_name<In>() << E::name() << PITH_VERSION_MAJOR << PITH_VERSION_MINOR;
    auto words = std::string();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      tensors << tensors_[i].name << tensors_[i].dims.n << tensors_[i].dims.rows;
      codecs << codecs_[i].name();
      if (i == 0 || codecs_[i].name() != codecs_[i - 1].name()) words.append(", ").append(codecs_[i].name());
    }
    fingerprint_ =
        (digest() << kind.value() << tensors.value() << codecs.value() << seed << comm_->rank() << comm_->size())
            .value();
    auto const* const how = detail::gather_name(how_);
    auto all = detail::agreement{(kind << how).value(), seed, tensors.value(), codecs.value(), {}};
    all.say(detail::text(tensors_.size(), " tensors, seed ", seed, how_ == gather::padded ? "" : ", ",
                         how_ == gather::padded ? "" : how, words));
    return all;
  }

  void make_states(std::uint64_t seed) {
    auto const rank = static_cast<std::uint16_t>(comm_->rank());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      offsets_.push_back(size_);
      size_ += tensors_[i].dims.n;
      states_.push_back(
          make_state<In>(exec_, codecs_[i], tensors_[i].dims, {seed, static_cast<std::uint32_t>(i), rank}));
    }
  }

  void make_plan() {
    std::size_t scratch = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      auto const& dims = tensors_[i].dims;
      detail::require_served<In, Comm, E>(codecs_[i], dims, comm_->size());
      auto const own = detail::exchange_scratch_bytes<In>(codecs_[i], exec_, dims, comm_->size());
      for (unsigned r = 0; r < detail::rounds(codecs_[i], dims, comm_->size()); ++r) {
        auto const moves = detail::transfer_of<In>(codecs_[i], r, dims, comm_->size());
        auto const staged = moves.how == transport::all_to_all ? moves.bytes() * comm_->size() : 0;
        scratch = std::max(scratch, own + scratch_for<std::byte>(staged));
        plan_.add(i, r, moves, comm_->size());
      }
    }
    plan_.place(comm_->size());
    scratch_ = buffer<std::byte, E>(exec_, scratch + detail::scratch_alignment);
    out_ = buffer<std::byte, E>(exec_, plan_.out_bytes());
    gathered_ = buffer<std::byte, E>(exec_, plan_.gathered_bytes());
    gathered_bytes_ = plan_.sent_bytes(transport::all_gather);
  }

  /// The shape of a tensor, and the room that it has in this step.
  shape const& dims(std::size_t tensor) const { return predicted_ ? predicted_->dims(tensor) : tensors_[tensor].dims; }

  void begin_step() {
    if (predicted_) {
      predicted_->begin_step(exec_);
      plan_.resize([this](std::size_t tensor, unsigned round) {
        return detail::transfer_of<In>(codecs_[tensor], round, dims(tensor), comm_->size()).bytes();
      });
    }
    gathered_bytes_ = exact_ ? 0 : plan_.sent_bytes(transport::all_gather);
  }

  void move(detail::exchange_plan::round const& groups, unsigned round) {
    auto const is_sealed = exact_ && exact_->has_counts(round);
    if (is_sealed) gathered_bytes_ += exact_->move(exec_, *comm_, groups, round, out_.data(), gathered_.data());
    for (auto const& g : groups) {
      if (is_sealed && g.how == transport::all_gather) continue;
      detail::move_bytes(exec_, *comm_, g.how, g.kind, out(g), gathered(g)).wait(exec_);
      if (exact_ && g.how == transport::all_gather) gathered_bytes_ += g.bytes;
    }
  }

  span_on<E, std::byte> out(group const& g) const { return out_.view().subspan(g.out, g.bytes * g.pieces); }
  span_on<E, std::byte> gathered(group const& g) const {
    return detail::comes_apart(g.how) ? gathered_.view().subspan(g.gathered, g.bytes * comm_->size())
                                      : span_on<E, std::byte>();
  }

  stream_on<E, In> gradient(span_on<E, In> all, std::size_t tensor) const {
    return {all.data() + offsets_[tensor], tensors_[tensor].dims.n};
  }

  void produce(group const& g, unsigned round, span_on<E, In> gradients, workspace_on<E>& ws) {
    for (auto const& s : g.slots) {
      if (g.pieces > 1) {
        produce_pieces(g, s, round, gradients, ws);
      } else {
        produce(s, round, gradients, out(g).subspan(s.offset, s.bytes), ws);
      }
    }
  }
  /// The pieces of one tensor lie apart in its group.
  void produce_pieces(group const& g, detail::exchange_plan::slot const& s, unsigned round, span_on<E, In> gradients,
                      workspace_on<E>& ws) {
    auto const scope = ws.mark();
    auto const staged = span_on<E, std::byte>(ws.template take<std::byte>(s.bytes * g.pieces).data, s.bytes * g.pieces);
    produce(s, round, gradients, staged, ws);
    for (unsigned r = 0; r < g.pieces; ++r)
      exec_.copy(out(g).data() + r * g.bytes + s.offset, staged.data() + r * s.bytes, s.bytes);
  }
  void produce(detail::exchange_plan::slot const& s, unsigned round, span_on<E, In> gradients, span_on<E, std::byte> to,
               workspace_on<E>& ws) {
    auto& state = states_[s.tensor];
    detail::produce<In>(codecs_[s.tensor], exec_, state.id(), dims(s.tensor), comm_->size(), round,
                        stream_on<E, In const>(gradient(gradients, s.tensor)), to, state.agreed(), state.local(), ws);
  }
  void absorb(group const& g, unsigned round, span_on<E, In> gradients, workspace_on<E>& ws) {
    for (auto const& s : g.slots) {
      auto& state = states_[s.tensor];
      auto const in = detail::comes_apart(g.how) ? received_on<E>{gathered(g).subspan(s.offset), g.bytes}
                                                 : received_on<E>{out(g).subspan(s.offset, s.bytes)};
      if (predicted_ && g.how == transport::all_gather) predicted_->note(exec_, s.tensor, in, comm_->size());
      detail::absorb<In>(codecs_[s.tensor], exec_, state.id(), dims(s.tensor), comm_->size(), round, in,
                         gradient(gradients, s.tensor), state.agreed(), state.local(), ws);
    }
  }

  E exec_;
  Comm* comm_;
  std::vector<tensor_spec> tensors_;
  gather how_;
  std::vector<codec_type> codecs_;
  std::uint64_t fingerprint_ = 0, size_ = 0;
  std::vector<std::uint64_t> offsets_;
  mutable std::vector<codec_state<In, codec_type, E>> states_;
  detail::exchange_plan plan_;
  std::optional<detail::exact_gather<In, E>> exact_;
  std::optional<detail::predicted_gather<In, E>> predicted_;
  std::size_t gathered_bytes_ = 0;
  buffer<std::byte, E> scratch_, out_, gathered_;
};

/// A gradient_exchange of values of `In`: with a policy or one codec, a seed, and how payloads are gathered.
template <real In, executor E, class Comm, class Policy>
gradient_exchange<In, E, Comm> make_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors,
                                             Policy const& policy, std::uint64_t seed = 0,
                                             gather how = gather::padded) {
  return gradient_exchange<In, E, Comm>(exec, comm, std::move(tensors), policy, seed, how);
}

}  // namespace pith::inline v0
