// pith/codec/any_stage.hpp — type-erased stages and type-erased states.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/compact.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/core/source.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// Owns a state of any type, except any_state itself.
class any_state {
 public:
  any_state() = default;
  template <class S>
    requires(!std::same_as<S, any_state> && detail::codec_state_part<S>)
  explicit any_state(S state) : self_(std::make_unique<model<S>>(std::move(state))) {}

  void fields(field_visitor& f) {
    if (self_) self_->fields(f);
  }
  void const* type() const { return self_ ? self_->type() : nullptr; }

  /// Returns the state as an S. Throws std::invalid_argument if the state has another type.
  template <class S>
  S& as() {
    if constexpr (std::same_as<S, any_state>)
      return *this;
    else
      return *checked<S>();
  }
  template <class S>
  S const& as() const {
    if constexpr (std::same_as<S, any_state>)
      return *this;
    else
      return *checked<S>();
  }

 private:
  /// The address of tag<S> identifies the type S. Tags replace dynamic_cast in builds without run-time type
  /// information.
  template <class S>
  static constexpr char tag = 0;

  struct base {
    virtual ~base() = default;
    virtual void fields(field_visitor&) = 0;
    virtual void const* type() const = 0;
  };
  template <class S>
  struct model final : base {
    explicit model(S s) : state(std::move(s)) {}
    void fields(field_visitor& f) override { state.fields(f); }
    void const* type() const override { return &tag<S>; }
    S state;
  };

  template <class S>
  S* checked() const {
    if (!self_ || self_->type() != &tag<S>) {
      throw std::invalid_argument(
          detail::sentence("any_codec: the state must be one that make_state returned for this codec"));
    }
    return &static_cast<model<S>&>(*self_).state;
  }

  std::unique_ptr<base> self_;
};

/// A type-erased stage for values of `In` on `E`. The stage emits values of the kind output_kind(). Views of the
/// emitted values have the type of views of `In` values, and contain the address of the emitted bytes.
template <real In, executor E>
class any_stage {
 public:
  using source = ext::residual_source<In>;
  using selected = ext::selected_entries<In>;
  template <std::same_as<In> T>
  using output = In;

  template <class S>
    requires(!std::same_as<S, any_stage> && stage<S, In, E>)
  explicit any_stage(S stage) : self_(std::make_shared<model<S>>(std::move(stage))) {
    explain_facets<S, In, E>();
    static_assert(
        !requires(S const& s) { s.stages(); },
        "pith: any_stage(s) needs one stage; pass each stage of a chain to any_chain");
  }

  std::string name() const { return self_->name(); }
  shape output_shape(shape const& dims) const { return self_->output_shape(dims); }
  element_kind output_kind() const { return self_->output_kind(); }
  std::size_t values_bytes(std::uint64_t n) const { return self_->values_bytes(n); }
  template <std::same_as<In> T>
  std::size_t side_bytes(shape const& dims) const {
    return self_->side_bytes(dims);
  }
  detail::stage_use used(shape const& dims, std::size_t side, detail::piece_visitor& visitor) const {
    return self_->used(dims, side, visitor);
  }
  template <std::same_as<In> T>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return self_->scratch_bytes(exec, dims);
  }
  capabilities capabilities_for(shape const& dims) const { return self_->capabilities_for(dims); }
  bool is_lossless(shape const& dims) const { return self_->is_lossless(dims); }
  bool has_rate() const { return self_->has_rate(); }
  std::uint64_t granule() const { return self_->granule(); }
  any_stage at(double rate) const { return self_->at(rate); }
  any_state make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    return self_->make_replicated(exec, id, dims);
  }
  any_state make_local(E const& exec, shape const& dims) const { return self_->make_local(exec, dims); }

  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y, any_state const& replicated,
              any_state& local) const {
    self_->encode(cx, x, y, replicated, local);
  }
  void decode(context<In, E> const& cx, encoded_on<E, In const> y, values_on<E, In> x,
              any_state const& replicated) const {
    self_->decode(cx, y, x, replicated);
  }

  /// True if encode_from may be called: for this shape, the stage can read its input from a source.
  bool can_encode_from(shape const& dims) const { return self_->can_encode_from(dims); }
  /// True if make_selected, select_from and write_back may be called: the stage is a sparsifier that selects entries
  /// from a source.
  bool selects_from() const { return self_->selects_from(); }
  /// True if decode_ranks may be called: the stage decodes and sums the outputs of all ranks in one pass.
  bool can_decode_ranks() const { return self_->can_decode_ranks(); }
  template <std::same_as<In> T, std::same_as<E> On, std::same_as<source> From>
  std::size_t scratch_bytes_from(E const& exec, shape const& dims) const {
    return self_->scratch_bytes_from(exec, dims);
  }
  void encode_from(context<In, E> const& cx, source const& from, encoded_on<E, In> y) const {
    self_->encode_from(cx, from, y);
  }
  selected make_selected(context<In, E> const& cx) const { return self_->make_selected(cx); }
  void select_from(context<In, E> const& cx, source const& from, selected const& to, span_on<E, std::byte> side) const {
    self_->select_from(cx, from, to, side);
  }
  void write_back(context<In, E> const& cx, source const& from, selected const& of, In const* sent) const {
    self_->write_back(cx, from, of, sent);
  }
  void decode_ranks(context<In, E> const& cx, gathered_on<E, In> in, accum<In> factor, values_on<E, In> x) const {
    self_->decode_ranks(cx, in, factor, x);
  }

  /// The maximum number of (index, value) entries that the stage emits; 0 if the stage does not emit entries.
  std::uint64_t max_entries(shape const& dims) const { return self_->max_entries(dims); }
  void decode_entries(context<In, E> const& cx, encoded_on<E, In const> y, selected const& to) const {
    self_->decode_entries(cx, y, to);
  }

 private:
  struct base {
    virtual ~base() = default;
    virtual std::string name() const = 0;
    virtual shape output_shape(shape const&) const = 0;
    virtual element_kind output_kind() const = 0;
    virtual std::size_t values_bytes(std::uint64_t) const = 0;
    virtual std::size_t side_bytes(shape const&) const = 0;
    virtual detail::stage_use used(shape const&, std::size_t, detail::piece_visitor&) const = 0;
    virtual std::size_t scratch_bytes(E const&, shape const&) const = 0;
    virtual capabilities capabilities_for(shape const&) const = 0;
    virtual bool is_lossless(shape const&) const = 0;
    virtual bool has_rate() const = 0;
    virtual std::uint64_t granule() const = 0;
    virtual any_stage at(double) const = 0;
    virtual any_state make_replicated(E const&, encoding_id const&, shape const&) const = 0;
    virtual any_state make_local(E const&, shape const&) const = 0;
    virtual void encode(context<In, E> const&, values_on<E, In const>, encoded_on<E, In>, any_state const&,
                        any_state&) const = 0;
    virtual void decode(context<In, E> const&, encoded_on<E, In const>, values_on<E, In>, any_state const&) const = 0;
    virtual bool can_encode_from(shape const&) const = 0;
    virtual bool selects_from() const = 0;
    virtual bool can_decode_ranks() const = 0;
    virtual std::size_t scratch_bytes_from(E const&, shape const&) const = 0;
    virtual void encode_from(context<In, E> const&, source const&, encoded_on<E, In>) const = 0;
    virtual selected make_selected(context<In, E> const&) const = 0;
    virtual void select_from(context<In, E> const&, source const&, selected const&, span_on<E, std::byte>) const = 0;
    virtual void write_back(context<In, E> const&, source const&, selected const&, In const*) const = 0;
    virtual void decode_ranks(context<In, E> const&, gathered_on<E, In>, accum<In>, values_on<E, In>) const = 0;
    virtual std::uint64_t max_entries(shape const&) const = 0;
    virtual void decode_entries(context<In, E> const&, encoded_on<E, In const>, selected const&) const = 0;
  };

  template <class S>
  struct model final : base {
    using out = output_of<S, In>;
    using replicated = replicated_of<S, In, E>;
    using local = local_of<S, In, E>;

    explicit model(S s) : stage(std::move(s)) {}

    std::string name() const override { return stage.name(); }
    shape output_shape(shape const& dims) const override { return stage.output_shape(dims); }
    element_kind output_kind() const override { return kind_of<out>(); }
    std::size_t values_bytes(std::uint64_t n) const override { return value_bytes<out>(n); }
    std::size_t side_bytes(shape const& dims) const override { return stage.template side_bytes<In>(dims); }
    detail::stage_use used(shape const& dims, std::size_t side, detail::piece_visitor& visitor) const override {
      return detail::used_of<In>(stage, dims, side, visitor);
    }
    std::size_t scratch_bytes(E const& exec, shape const& dims) const override {
      return detail::scratch_bytes<In>(stage, exec, dims);
    }
    capabilities capabilities_for(shape const& dims) const override { return capabilities_of(stage, dims); }
    bool is_lossless(shape const& dims) const override { return stage.is_lossless(dims); }
    bool has_rate() const override { return detail::has_rate(stage); }
    std::uint64_t granule() const override {
      if constexpr (requires { stage.granule(); }) return stage.granule();
      return 1;
    }
    any_stage at(double rate) const override { return any_stage(detail::at(stage, rate)); }
    any_state make_replicated(E const& exec, encoding_id const& id, shape const& dims) const override {
      return any_state(detail::make_replicated_in_chain<In>(exec, stage, id, dims));
    }
    any_state make_local(E const& exec, shape const& dims) const override {
      return any_state(pith::make_local<In>(exec, stage, dims));
    }

    void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y, any_state const& a,
                any_state& l) const override {
      detail::encode<In>(stage, cx, x, view<out>(cx, y), a.as<replicated>(), l.as<local>());
    }
    void decode(context<In, E> const& cx, encoded_on<E, In const> y, values_on<E, In> x,
                any_state const& a) const override {
      detail::decode<In>(stage, cx, view<out const>(cx, y), x, a.as<replicated>());
    }

    // Callers call encode_from only if `fuses` is true, make_selected, select_from and write_back only if `selects` is
    // true, and decode_ranks only if `sums` is true.
    static constexpr bool fuses = detail::reads_source<S, In, E, source>;
    static constexpr bool selects = detail::selects_from<S, In, E, source>;
    static constexpr bool sums = detail::decodes_ranks<S, In, E>;

    bool can_encode_from(shape const& dims) const override { return fuses && stage.template can_encode_from<E>(dims); }
    bool selects_from() const override { return selects; }
    bool can_decode_ranks() const override { return sums; }
    std::size_t scratch_bytes_from(E const& exec, shape const& dims) const override {
      return detail::scratch_bytes_from<In, source>(stage, exec, dims);
    }
    void encode_from(context<In, E> const& cx, [[maybe_unused]] source const& from,
                     [[maybe_unused]] encoded_on<E, In> y) const override {
      if constexpr (fuses) stage.template encode_from<In>(cx, from, view<out>(cx, y));
    }
    selected make_selected([[maybe_unused]] context<In, E> const& cx) const override {
      if constexpr (selects) return stage.make_selected(cx);
      return {};
    }
    void select_from(context<In, E> const& cx, [[maybe_unused]] source const& from, [[maybe_unused]] selected const& to,
                     [[maybe_unused]] span_on<E, std::byte> side) const override {
      if constexpr (selects) stage.select_from(cx, from, to, side);
    }
    void write_back(context<In, E> const& cx, [[maybe_unused]] source const& from, [[maybe_unused]] selected const& of,
                    [[maybe_unused]] In const* sent) const override {
      if constexpr (selects) stage.write_back(cx, from, of, sent);
    }
    void decode_ranks(context<In, E> const& cx, [[maybe_unused]] gathered_on<E, In> in,
                      [[maybe_unused]] accum<In> factor, [[maybe_unused]] values_on<E, In> x) const override {
      if constexpr (sums) {
        stage.decode_ranks(cx, gathered_on<E, out>{view<out const>(cx, in), in.stride, in.ranks}, factor, x);
      }
    }
    std::uint64_t max_entries(shape const& dims) const override { return detail::max_entries<In, E>(stage, dims); }
    void decode_entries(context<In, E> const& cx, [[maybe_unused]] encoded_on<E, In const> y,
                        [[maybe_unused]] selected const& to) const override {
      if constexpr (detail::lists_entries<S, In, E>) {
        auto const scope = cx.ws.mark();
        stage.decode_entries(cx, view<out const>(cx, y), to);
      }
    }

    /// Returns a view of y as values of `Out`, the stage's output type.
    template <class Out, class Erased>
    encoded_on<E, Out> view(context<In, E> const& cx, Erased const& y) const {
      auto* const values = reinterpret_cast<typename storage<Out>::word*>(y.values.data);
      return {{values, output_shape(cx.dims).n, nullptr}, y.side};
    }

    S stage;
  };

  std::shared_ptr<base const> self_;
};

}}  // namespace pith::PITH_ABI
