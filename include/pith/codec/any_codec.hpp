// pith/codec/any_codec.hpp — a type-erased codec, which costs a few virtual calls per tensor.
#pragma once

#include <pith/codec/any_stage.hpp>
#include <pith/codec/compress.hpp>
#include <pith/codec/detail/feedback_places.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/measured.hpp>
#include <pith/exec/seq.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// A type-erased codec for values of `In` on `E`. The wrapped codec fuses its loops as it does without any_codec. A
/// codec policy returns an any_codec for each tensor.
template <real In, executor E = seq_executor>
class any_codec : public codec_base {
  struct base;

 public:
  using facets = ext::computed;

  static constexpr codec_traits traits = {.terminal = true};

  template <class C>
    requires(!std::same_as<C, any_codec> && codec<C, In, E>)
  any_codec(C codec) : self_(std::make_shared<model<C>>(std::move(codec))), origin_(self_) {
    explain_facets<C, In, E>();
  }

  std::string name() const { return is_flat_ ? detail::text("flat(", self_->name(), ")") : self_->name(); }
  capabilities capabilities_for(shape const& dims) const { return self_->capabilities_for(dims); }
  bool is_lossless(shape const& dims) const { return self_->is_lossless(dims); }

  /// Whether an exchange joins the tensors of a bucket that have this codec (adaptor/flat.hpp).
  bool is_flat() const { return is_flat_; }
  /// Returns the codec flat(c).
  any_codec flattened() const {
    detail::require(!is_flat_, "flat: c of flat(c) must not be flat, got ", name());
    detail::require(self_->shards({~std::uint64_t{0}}) == nullptr, "flat: all ranks must receive the mean of c, got ",
                    name());
    auto other = *this;
    other.is_flat_ = true;
    return other;
  }

  bool may_be_lossy(shape const& dims) const { return self_->may_be_lossy(dims); }
  void rescale(E const& exec, double factor, any_state& replicated, any_state& local) const {
    self_->rescale(exec, factor, replicated, local);
  }

  any_codec measuring(rate_list const& rates) const {
    auto other = self_->measuring(rates);
    other.origin_ = origin_;
    other.is_flat_ = is_flat_;
    return other;
  }
  rate_list measured_rates() const { return self_->measured_rates(); }
  double* energies_in(any_state& local) const { return self_->energies_in(local); }
  bool has_rate() const { return self_->has_rate(); }
  bool states_follow_rate() const { return self_->states_follow_rate(); }
  /// Returns the same codec at another rate. Existing states remain valid if states_follow_rate() is false. Throws
  /// std::invalid_argument if the codec has no rate.
  any_codec at(double rate) const {
    auto other = self_->at(rate);
    if (!states_follow_rate()) other.origin_ = origin_;
    other.is_flat_ = is_flat_;
    return other;
  }
  /// True if both codecs can use the same states. This is true for copies of one codec. For copies at different rates,
  /// it is true if states_follow_rate() is false.
  bool shares_states(any_codec const& other) const { return origin_ == other.origin_; }
  void visit_feedback(detail::feedback_scope const& at, any_state& replicated, any_state& local,
                      detail::feedback_places<accum<In>>& places) const {
    self_->visit_feedback(at, replicated, local, places);
  }

  template <std::same_as<In> T>
  std::size_t payload_bytes(shape const& dims) const {
    return self_->payload_bytes(dims);
  }
  template <std::same_as<In> T>
  void visit_pieces(shape const& dims, detail::piece_visitor& visitor) const {
    self_->visit_pieces(dims, visitor);
  }
  template <std::same_as<In> T>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return self_->scratch_bytes(exec, dims);
  }
  template <std::same_as<In> T>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned ranks) const {
    return self_->exchange_scratch_bytes(exec, dims, ranks);
  }
  template <std::same_as<In> T>
  any_state make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    return self_->make_replicated(exec, id, dims);
  }
  template <std::same_as<In> T>
  any_state make_local(E const& exec, shape const& dims) const {
    return self_->make_local(exec, dims);
  }

  void require_states(any_state const& replicated, any_state const& local) const {
    self_->require_states(replicated, local);
  }
  void encode_payload(context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> payload,
                      any_state const& replicated, any_state& local) const {
    self_->encode(cx, x, payload, replicated, local);
  }
  void decode_payload(context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                      any_state const& replicated) const {
    self_->decode(cx, payload, x, replicated);
  }

  sharding const* shards(shape const& dims) const { return self_->shards(dims); }
  bool changes_mean() const { return self_->changes_mean(); }
  std::uint64_t granule() const { return self_->granule(); }
  unsigned rounds(shape const& dims, unsigned ranks) const { return self_->rounds(dims, ranks); }
  unsigned depth() const { return self_->depth(); }
  template <std::same_as<In> T>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const {
    return self_->round(r, dims, ranks);
  }
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               any_state const& replicated, any_state& local) const {
    self_->produce(cx, round, x, out, replicated, local);
  }
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x, any_state& replicated,
              any_state& local) const {
    self_->absorb(cx, round, in, x, replicated, local);
  }

 private:
  struct base {
    virtual ~base() = default;
    virtual std::string name() const = 0;
    virtual capabilities capabilities_for(shape const&) const = 0;
    virtual bool is_lossless(shape const&) const = 0;
    virtual bool may_be_lossy(shape const&) const = 0;
    virtual void rescale(E const&, double, any_state&, any_state&) const = 0;
    virtual any_codec measuring(rate_list const&) const = 0;
    virtual rate_list measured_rates() const = 0;
    virtual double* energies_in(any_state&) const = 0;
    virtual bool has_rate() const = 0;
    virtual bool states_follow_rate() const = 0;
    virtual any_codec at(double) const = 0;
    virtual void visit_feedback(detail::feedback_scope const&, any_state&, any_state&,
                                detail::feedback_places<accum<In>>&) const = 0;
    virtual std::size_t payload_bytes(shape const&) const = 0;
    virtual void visit_pieces(shape const&, detail::piece_visitor&) const = 0;
    virtual std::size_t scratch_bytes(E const&, shape const&) const = 0;
    virtual std::size_t exchange_scratch_bytes(E const&, shape const&, unsigned) const = 0;
    virtual any_state make_replicated(E const&, encoding_id const&, shape const&) const = 0;
    virtual any_state make_local(E const&, shape const&) const = 0;
    virtual void require_states(any_state const&, any_state const&) const = 0;
    virtual sharding const* shards(shape const&) const = 0;
    virtual bool changes_mean() const = 0;
    virtual std::uint64_t granule() const = 0;
    virtual unsigned rounds(shape const&, unsigned) const = 0;
    virtual unsigned depth() const = 0;
    virtual transfer round(unsigned, shape const&, unsigned) const = 0;
    virtual void encode(context<In, E> const&, values_on<E, In const>, span_on<E, std::byte>, any_state const&,
                        any_state&) const = 0;
    virtual void decode(context<In, E> const&, span_on<E, std::byte const>, values_on<E, In>,
                        any_state const&) const = 0;
    virtual void produce(context<In, E> const&, unsigned, values_on<E, In const>, span_on<E, std::byte>,
                         any_state const&, any_state&) const = 0;
    virtual void absorb(context<In, E> const&, unsigned, received_on<E>, values_on<E, In>, any_state&,
                        any_state&) const = 0;
  };

  template <class C>
  struct model final : base {
    using replicated = replicated_of<C, In, E>;
    using local = local_of<C, In, E>;

    explicit model(C c) : codec(std::move(c)) {}

    std::string name() const override { return codec.name(); }
    capabilities capabilities_for(shape const& dims) const override { return capabilities_of(codec, dims); }
    bool is_lossless(shape const& dims) const override { return codec.is_lossless(dims); }
    void rescale(E const& exec, double factor, any_state& a, any_state& l) const override {
      codec.rescale(exec, factor, a.as<replicated>(), l.as<local>());
    }
    bool may_be_lossy(shape const& dims) const override { return detail::may_be_lossy(codec, dims); }
    any_codec measuring(rate_list const& rates) const override { return detail::measuring(codec, rates); }
    rate_list measured_rates() const override { return codec.measured_rates(); }
    double* energies_in(any_state& l) const override { return codec.energies_in(l.as<local>()); }
    bool has_rate() const override { return detail::has_rate(codec); }
    bool states_follow_rate() const override { return codec.states_follow_rate(); }
    any_codec at([[maybe_unused]] double rate) const override {
      if constexpr (detail::rate_adjustable<C>) {
        if (has_rate()) return codec.at(rate);
      }
      throw std::invalid_argument(
          detail::sentence("any_codec::at: the codec must have an adjustable rate, got ", name()));
    }
    void visit_feedback(detail::feedback_scope const& at, any_state& a, any_state& l,
                        detail::feedback_places<accum<In>>& places) const override {
      codec.visit_feedback(at, a.as<replicated>(), l.as<local>(), places);
    }
    std::size_t payload_bytes(shape const& dims) const override { return pith::payload_bytes<In>(codec, dims); }
    void visit_pieces(shape const& dims, detail::piece_visitor& visitor) const override {
      detail::visit_pieces<In>(codec, dims, visitor);
    }
    std::size_t scratch_bytes(E const& exec, shape const& dims) const override {
      return detail::scratch_bytes<In>(codec, exec, dims);
    }
    std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned ranks) const override {
      return detail::exchange_scratch_bytes<In>(codec, exec, dims, ranks);
    }
    any_state make_replicated(E const& exec, encoding_id const& id, shape const& dims) const override {
      return any_state(pith::make_replicated<In>(exec, codec, id, dims));
    }
    any_state make_local(E const& exec, shape const& dims) const override {
      return any_state(pith::make_local<In>(exec, codec, dims));
    }
    void require_states(any_state const& a, any_state const& l) const override {
      codec.require_states(a.as<replicated>(), l.as<local>());
    }
    sharding const* shards(shape const& dims) const override { return codec.shards(dims); }
    bool changes_mean() const override { return codec.changes_mean(); }
    std::uint64_t granule() const override {
      if constexpr (requires { codec.granule(); }) return codec.granule();
      return 1;
    }
    unsigned rounds(shape const& dims, unsigned ranks) const override { return codec.rounds(dims, ranks); }
    unsigned depth() const override { return codec.depth(); }
    transfer round(unsigned r, shape const& dims, unsigned ranks) const override {
      return detail::transfer_of<In>(codec, r, dims, ranks);
    }

    void encode(context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> payload, any_state const& a,
                any_state& l) const override {
      detail::encode_payload<In>(codec, cx, x, payload, a.as<replicated>(), l.as<local>());
    }
    void decode(context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                any_state const& a) const override {
      detail::decode_payload<In>(codec, cx, payload, x, a.as<replicated>());
    }
    void produce(context<In, E> const& cx, unsigned r, values_on<E, In const> x, span_on<E, std::byte> out,
                 any_state const& a, any_state& l) const override {
      detail::produce<In>(codec, cx, r, x, out, a.as<replicated>(), l.as<local>());
    }
    void absorb(context<In, E> const& cx, unsigned r, received_on<E> in, values_on<E, In> x, any_state& a,
                any_state& l) const override {
      detail::absorb<In>(codec, cx, r, in, x, a.as<replicated>(), l.as<local>());
    }

    C codec;
  };

  std::shared_ptr<base const> self_, origin_;
  bool is_flat_ = false;
};

}}  // namespace pith::PITH_ABI
