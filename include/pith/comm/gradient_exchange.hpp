// pith/comm/gradient_exchange.hpp — the gradients of a model's tensors, exchanged by one call a step.
#pragma once

#include <pith/comm/agreement.hpp>
#include <pith/comm/all_reduce_mean.hpp>
#include <pith/core/any_codec.hpp>
#include <pith/version.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace pith::inline v0 {

/// A tensor of a model.
struct tensor_spec {
  std::string name;
  shape       dims;
};

/// Owns everything that exchanging a model's gradients takes: a codec and its state for each tensor, memory, and the
/// plan by which all tensors' payloads travel together, one transfer a round and kind.
///
///   needs    equal tensors, codecs and seed on all ranks (agreement_error when it is built)
///   keeps    the codecs' states; export_state saves them, import_state puts them back
///   cost     memory for one payload of all tensors and `size()` gathered ones; a step allocates nothing
template <real In, executor E, exchanges<E> Comm>
class gradient_exchange {
 public:
  using codec_type = any_codec<In, E>;

  /// `policy(tensor)` is the codec of a tensor.
  template <class Policy>
    requires std::convertible_to<std::invoke_result_t<Policy const&, tensor_spec const&>, codec_type>
  gradient_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy, std::uint64_t seed = 0)
      : exec_(exec), comm_(&comm), tensors_(std::move(tensors)) {
    for (auto const& t : tensors_) codecs_.push_back(policy(t));
    detail::require_agreement(exec_, comm, agreement(seed));
    make_states(seed);
    make_plan();
  }

  /// One codec for all tensors.
  gradient_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, codec_type const& codec, std::uint64_t seed = 0)
      : gradient_exchange(exec, comm, std::move(tensors), [&codec](tensor_spec const&) { return codec; }, seed) {}

  std::vector<tensor_spec> const& tensors() const { return tensors_; }
  std::vector<codec_type> const&  codecs() const { return codecs_; }

  /// The elements of all tensors.
  std::uint64_t size() const { return size_; }

  /// The bytes that a rank hands to the communicator in a step, padding included; gathered ones travel to all others.
  std::size_t gathered_bytes() const { return sent_by(true); }
  std::size_t summed_bytes() const { return sent_by(false); }

  /// Replaces gradients, all tensors one after another, by their means over the ranks, as far as the codecs keep them.
  void all_reduce_mean(span_on<E, In> gradients) {
    detail::require_size("gradient_exchange", "the elements of all gradients", size_, gradients.size());
    auto ws = workspace_on<E>(scratch_.view());
    for (auto& state : states_) state.advance(exec_);
    for (unsigned round = 0; round < plan_.size(); ++round) {
      for (auto const& g : plan_[round]) move_group(g, round, gradients, ws);
    }
  }

  /// The bytes of all states of this rank.
  std::vector<std::byte> export_state() const {
    auto saved = save(exec_, std::vector<std::byte>(sizeof identity_));
    std::copy_n(reinterpret_cast<std::byte const*>(&identity_), sizeof identity_, saved.bytes.data());
    for (auto& state : states_) state.fields(saved);
    return std::move(saved.bytes);
  }

  /// Puts back what export_state of an equal exchange returned.
  void import_state(span<std::byte const> bytes) {
    auto size = count();
    for (auto& state : states_) state.fields(size);
    detail::require_size("import_state", "the bytes of the state", sizeof identity_ + size.bytes, bytes.size());
    detail::require(std::equal(bytes.begin(), bytes.begin() + sizeof identity_, reinterpret_cast<std::byte const*>(&identity_)),
                    "import_state: the state is of other tensors, codecs or another seed");
    auto loaded = load(exec_, bytes.data() + sizeof identity_);
    for (auto& state : states_) state.fields(loaded);
  }

 private:
  /// The tensors whose bytes travel together in one round.
  struct slot {
    std::size_t tensor, offset, bytes;
  };
  struct group {
    transport         how;
    element_kind      kind;
    std::size_t       bytes = 0;
    std::vector<slot> slots;
  };

  struct count final : field_visitor {
    std::size_t bytes = 0;
    void        visit(void*, std::size_t n) override { bytes += n; }
  };
  struct save final : field_visitor {
    save(E const& e, std::vector<std::byte> b) : exec(e), bytes(std::move(b)) {}
    void visit(void* data, std::size_t n) override {
      bytes.resize(bytes.size() + n);
      exec.download(bytes.data() + bytes.size() - n, data, n);
    }
    E const&               exec;
    std::vector<std::byte> bytes;
  };
  struct load final : field_visitor {
    load(E const& e, std::byte const* b) : exec(e), from(b) {}
    void visit(void* data, std::size_t n) override {
      exec.upload(data, from, n);
      from += n;
    }
    E const&         exec;
    std::byte const* from;
  };

  detail::agreement agreement(std::uint64_t seed) {
    auto kind = digest(), tensors = digest(), codecs = digest();
    kind << element_name<In>() << E::name() << PITH_VERSION_MAJOR << PITH_VERSION_MINOR;
    auto words = std::string();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      tensors << tensors_[i].name << tensors_[i].dims.n << tensors_[i].dims.rows;
      codecs << codecs_[i].name();
      if (i == 0 || codecs_[i].name() != codecs_[i - 1].name()) words.append(", ").append(codecs_[i].name());
    }
    identity_ = (digest() << kind.value() << tensors.value() << codecs.value() << seed).value();
    auto all  = detail::agreement{kind.value(), seed, tensors.value(), codecs.value(), {}};
    all.say(detail::text(tensors_.size(), " tensors, seed ", seed, words));
    return all;
  }

  void make_states(std::uint64_t seed) {
    auto const rank = static_cast<std::uint16_t>(comm_->rank());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      offsets_.push_back(size_);
      size_ += tensors_[i].dims.n;
      states_.push_back(make_state<In>(exec_, codecs_[i], tensors_[i].dims, {seed, static_cast<std::uint32_t>(i), rank}));
    }
  }

  void make_plan() {
    std::size_t scratch = 0, out = 0, gathered = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      auto const& dims = tensors_[i].dims;
      scratch          = std::max(scratch, detail::exchange_scratch_bytes<In>(codecs_[i], exec_, dims, comm_->size()));
      for (unsigned r = 0; r < detail::rounds(codecs_[i], dims, comm_->size()); ++r) add_slot(i, r);
    }
    for (auto const& round : plan_) {
      for (auto const& g : round) {
        out = std::max(out, g.bytes);
        if (g.how == transport::all_gather) gathered = std::max(gathered, g.bytes * comm_->size());
      }
    }
    scratch_  = buffer<std::byte, E>(exec_, scratch + detail::scratch_alignment);
    out_      = buffer<std::byte, E>(exec_, out);
    gathered_ = buffer<std::byte, E>(exec_, gathered);
  }

  void add_slot(std::size_t tensor, unsigned round) {
    if (plan_.size() <= round) plan_.resize(round + 1);
    auto const moves = detail::transfer_of<In>(codecs_[tensor], round, tensors_[tensor].dims, comm_->size());
    auto&      g     = group_of(plan_[round], moves);
    g.slots.push_back({tensor, g.bytes, moves.bytes()});
    g.bytes += detail::align_up(moves.bytes(), detail::section_alignment);
  }
  static group& group_of(std::vector<group>& round, transfer const& moves) {
    auto const found = std::find_if(round.begin(), round.end(), [&](group const& g) { return g.how == moves.how && g.kind == moves.kind; });
    return found != round.end() ? *found : round.emplace_back(group{moves.how, moves.kind, 0, {}});
  }

  std::size_t sent_by(bool gathering) const {
    std::size_t bytes = 0;
    for (auto const& round : plan_) {
      for (auto const& g : round) bytes += (g.how == transport::all_gather) == gathering ? g.bytes : 0;
    }
    return bytes;
  }

  stream_on<E, In> gradient(span_on<E, In> all, std::size_t tensor) const {
    return {all.data() + offsets_[tensor], tensors_[tensor].dims.n};
  }

  void move_group(group const& g, unsigned round, span_on<E, In> gradients, workspace_on<E>& ws) {
    auto const out = out_.view().first(g.bytes);
    for (auto const& s : g.slots) {
      auto& state = states_[s.tensor];
      detail::produce<In>(codecs_[s.tensor], exec_, state.id(), state.dims(), comm_->size(), round,
                          stream_on<E, In const>(gradient(gradients, s.tensor)), out.subspan(s.offset, s.bytes), state.agreed(),
                          state.local(), ws);
    }
    auto const in = detail::move_bytes(exec_, *comm_, g.how, g.kind, out, gathered_.view());
    for (auto const& s : g.slots) {
      auto& state = states_[s.tensor];
      detail::absorb<In>(codecs_[s.tensor], exec_, state.id(), state.dims(), comm_->size(), round,
                         received_on<E>{in.bytes.subspan(s.offset), in.stride}, gradient(gradients, s.tensor), state.agreed(),
                         state.local(), ws);
    }
  }

  E                        exec_;
  Comm*                    comm_;
  std::vector<tensor_spec> tensors_;
  std::vector<codec_type>  codecs_;
  std::uint64_t            identity_ = 0, size_ = 0;
  std::vector<std::uint64_t>                      offsets_;
  mutable std::vector<codec_state<In, codec_type, E>> states_;
  std::vector<std::vector<group>>                 plan_;
  buffer<std::byte, E>                            scratch_, out_, gathered_;
};

/// A gradient_exchange of values of `In`: with a policy or one codec, and a seed.
template <real In, executor E, exchanges<E> Comm, class Policy>
gradient_exchange<In, E, Comm> make_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                                             std::uint64_t seed = 0) {
  return gradient_exchange<In, E, Comm>(exec, comm, std::move(tensors), policy, seed);
}

}  // namespace pith::inline v0
