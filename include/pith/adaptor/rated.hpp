// pith/adaptor/rated.hpp — a codec whose rate may change in each step, without compression at high rates.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/codec/capability.hpp>
#include <pith/codec/compact.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/measured.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/core/detail/summation.hpp>
#include <pith/core/error.hpp>
#include <pith/core/source.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// Compresses with `C`. After at(rate), steps with a rate of at least `dense_from` are dense: they exchange the
/// uncompressed values as `identity` does. In error_feedback(rated(c)), a dense step exchanges the compensated
/// gradients, and the residual is zero afterwards (with `loco`, beta times the old one). `measuring` sets the rates at
/// which to measure the kept energy |x|^2 - |x - D(C(x))|^2 of C.
///
///   requires    a C whose rate is a density, and that has no rounds of its own
///   state       the state of C, and nine doubles for measurements, which export_state does not save
///   complexity  measuring top_k at several rates costs little more than measuring at the largest of these rates.
///               Other codecs encode and decode once per measured rate
///   properties  lossless at rates of at least dense_from, otherwise the properties of C. A tensor's residual is
///               allocated at every rate
template <class C>
class rated : public codec_base {
  static_assert(detail::rate_adjustable<C>,
                "pith: rated(c) needs a codec c with a rate: one with at(rate), as top_k(0.01)");

 public:
  using facets = ext::computed;

  static constexpr codec_traits traits = {.reproducible = reproducible<C>, .rates = traits_of<C>.rates};

  explicit rated(C codec, double dense_from = 1) : codec_(std::move(codec)), dense_from_(dense_from) {
    explain_facets<C>();
    detail::require(dense_from > 0 && dense_from <= 1, "rated: dense_from must be in (0, 1], got ", dense_from);
  }

  std::string name() const {
    auto const from = dense_from_ == 1 ? "" : detail::text(",", detail::shortest(dense_from_));
    return detail::text("rated(", codec_.name(), from, is_dense_ ? ",dense)" : ")");
  }
  bool has_rate() const { return detail::has_rate(codec_); }
  rated at(double rate) const {
    detail::require(0 < rate && rate < HUGE_VAL, "rated: rate must be finite and above 0, got ", rate);
    auto other = *this;
    other.is_dense_ = rate >= dense_from_;
    if (!other.is_dense_) other.codec_ = codec_.at(rate);
    return other;
  }
  rated measuring(rate_list const& at_rates) const {
    auto other = *this;
    other.measured_ = at_rates;
    return other;
  }
  rate_list const& measured_rates() const { return measured_; }
  double* energies_in(auto& local) const { return std::get<1>(local.each).values.data(); }

  bool is_lossless(shape const& dims) const { return is_dense_ || codec_.is_lossless(dims); }
  bool may_be_lossy(shape const& dims) const { return detail::may_be_lossy(codec_, dims); }
  capabilities capabilities_for(shape const& dims) const {
    return is_dense_ ? capabilities_of(identity(), dims) : capabilities_of(codec_, dims);
  }
  sum_form sums_as() const { return is_dense_ ? sum_form::encode : detail::sums(codec_); }
  bool decodes_affinely() const requires detail::maybe_affine<C> { return !is_dense_ && detail::is_affine(codec_); }
  std::uint64_t granule() const requires requires(C const& c) { c.granule(); }
  { return codec_.granule(); }

  template <class In, executor E>
  auto make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    static_assert(!collective<C, In, E>, "pith: rated(c) needs a c without rounds of its own, as top_k(0.01)");
    return pith::make_replicated<In>(exec, codec_, id, dims);
  }
  template <class In, executor E>
  auto make_local(E const& exec, shape const& dims) const {
    using made = detail::states<detail::local_part, local_of<C, In, E>, detail::energies<E>>;
    using energies = detail::energies<E>;
    return made{{pith::make_local<In>(exec, codec_, dims), energies{buffer<double, E>(exec, energies::size)}}};
  }

  template <class In>
  std::size_t payload_bytes(shape const& dims) const {
    return is_dense_ ? value_bytes<In>(dims.n) : pith::payload_bytes<In>(codec_, dims);
  }
  template <class In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const {
    return is_dense_ ? detail::transfer_of<In>(identity(), r, dims, ranks)
                     : detail::transfer_of<In>(codec_, r, dims, ranks);
  }
  template <class In>
  void visit_pieces(shape const& dims, detail::piece_visitor& visitor) const {
    if (is_dense_) return visitor.piece({0, payload_bytes<In>(dims)});
    detail::visit_pieces<In>(codec_, dims, visitor);
  }
  template <class In, executor E>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    using source = ext::plain_source<In>;
    auto const sending = is_dense_ ? 0 : detail::scratch_bytes<In>(codec_, exec, dims);
    if (measured_.empty()) return sending;
    if constexpr (detail::measures_from<C, In, E, source>) {
      return codec_.template measured_scratch_bytes<In, E, source>(exec, dims, measured_, !is_dense_);
    } else {
      std::size_t most = sending;
      for (auto const rate : measured_) most = std::max(most, trial_bytes<In>(exec, dims, rate));
      return std::max(most, detail::reduce_scratch_bytes<double>(dims.n));
    }
  }

  template <class In, executor E>
    requires codec<C, In, E>
  void encode_payload(context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> payload,
                      auto const& replicated, auto& local) const {
    using source = ext::plain_source<In>;
    if (is_dense_) cx.exec.copy(payload.data(), x.data, payload.size());
    auto const own = is_dense_ ? span_on<E, std::byte>() : payload;
    if constexpr (detail::measures_from<C, In, E, source>) {
      if (!measured_.empty())
        return codec_.template encode_measured<In>(cx, source{x.data}, measured_, own, energies_in(local));
    } else if (!measured_.empty()) {
      measure<In>(cx, x, replicated, local);
    }
    if (!is_dense_) detail::encode_payload<In>(codec_, cx, x, own, replicated, codec_part(local));
  }
  template <class In, executor E>
    requires codec<C, In, E>
  void decode_payload(context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                      auto const& replicated) const {
    if (is_dense_) return cx.exec.copy(x.data, payload.data(), payload.size());
    detail::decode_payload<In>(codec_, cx, payload, x, replicated);
  }

  /// True if the step is not dense and C can encode from a source. If `measuring` has set rates, the result is true
  /// only if C can also measure the kept energy in the pass that encodes.
  template <executor E>
  bool can_encode_from(shape const& dims) const {
    auto const can_measure = detail::measures_from<C, float, E, ext::plain_source<float>>;
    return !is_dense_ && (measured_.empty() || can_measure) && codec_.template can_encode_from<E>(dims);
  }
  template <class In, executor E, class Source>
  std::size_t scratch_bytes_from(E const& exec, shape const& dims) const {
    if constexpr (detail::measures_from<C, In, E, Source>) {
      if (!measured_.empty())
        return codec_.template measured_scratch_bytes<In, E, Source>(exec, dims, measured_, !is_dense_);
    }
    return is_dense_ ? 0 : detail::scratch_bytes_from<In, Source>(codec_, exec, dims);
  }
  template <class In, executor E, class Source>
    requires detail::reads_source<C, In, E, Source>
  void encode_from(context<In, E> const& cx, Source const& from, span_on<E, std::byte> payload, auto const& replicated,
                   auto& local) const {
    if constexpr (detail::measures_from<C, In, E, Source>) {
      if (!measured_.empty())
        return codec_.template encode_measured<In>(cx, from, measured_, payload, energies_in(local));
    }
    detail::encode_from<In>(codec_, cx, from, payload, replicated, codec_part(local));
  }

  /// True if decode_ranks may be called. False in dense steps, whose payloads C cannot decode.
  bool can_decode_ranks() const { return !is_dense_ && codec_.can_decode_ranks(); }
  template <class In, executor E>
    requires detail::decodes_ranks<C, In, E>
  void decode_ranks(context<In, E> const& cx, received_on<E> in, accum<In> factor, values_on<E, In> x,
                    auto const& replicated) const {
    detail::decode_ranks<In>(codec_, cx, in, factor, x, replicated);
  }
  std::uint64_t max_entries(shape const& dims) const requires detail::counts_entries<C> {
    return is_dense_ ? 0 : codec_.max_entries(dims);
  }
  template <class In, executor E>
    requires detail::lists_entries<C, In, E>
  void decode_entries(context<In, E> const& cx, span_on<E, std::byte const> payload,
                      ext::selected_entries<In> const& to, auto const& replicated) const {
    detail::decode_entries<In>(codec_, cx, payload, to, replicated);
  }

 private:
  static auto& codec_part(auto& local) { return std::get<0>(local.each); }
  static shape at_full_capacity(shape const& dims) { return {dims.n, dims.rows}; }

  /// Writes the kept energy at each measured rate to energies_in(local). Encodes and decodes once per rate, with payloads
  /// of full capacity.
  template <class In, executor E>
  void measure(context<In, E> const& sent, values_on<E, In const> x, auto const& replicated, auto& local) const {
    auto const cx = sent.with(at_full_capacity(sent.dims));
    auto* const energies = energies_in(local);
    detail::reduce_into(cx.exec, energies, cx.dims.n, detail::square_of<In>{x.data}, detail::plus(), 0.0, cx.ws);
    for (std::size_t i = 0; i < measured_.size(); ++i) {
      auto const scope = cx.ws.mark();
      auto const other = codec_.at(measured_[i]);
      auto const size = pith::payload_bytes<In>(other, cx.dims);
      auto const payload = cx.ws.take_bytes(size);
      auto const y = cx.ws.template take<In>(cx.dims.n);
      auto* const lost = cx.ws.template take<double>(1).data;
      detail::encode_payload<In>(other, cx, x, payload, replicated, codec_part(local));
      detail::decode_payload<In>(other, cx, payload, y, replicated);
      auto const squares = detail::square_of_difference<In>{x.data, y.data};
      detail::reduce_into(cx.exec, lost, cx.dims.n, squares, detail::plus(), 0.0, cx.ws);
      cx.exec.for_each_index(1, detail::note_kept{energies, lost, 1 + i});
    }
  }
  template <class In, executor E>
  std::size_t trial_bytes(E const& exec, shape dims, double rate) const {
    dims = at_full_capacity(dims);
    auto const other = codec_.at(rate);
    auto const working =
        std::max(detail::scratch_bytes<In>(other, exec, dims), detail::reduce_scratch_bytes<double>(dims.n));
    return scratch_for<std::byte>(pith::payload_bytes<In>(other, dims)) + scratch_for<In>(dims.n) +
           scratch_for<double>(1) + working;
  }

  C codec_;
  double dense_from_;
  bool is_dense_ = false;
  rate_list measured_ = {};
};

}}  // namespace pith::PITH_ABI
