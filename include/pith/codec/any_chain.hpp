// pith/codec/any_chain.hpp — a chain whose stages are chosen at run time; payloads equal those of chain.
#pragma once

#include <pith/codec/any_stage.hpp>
#include <pith/codec/codec_base.hpp>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace pith::inline v0 {

/// A chain of type-erased stages, from left to right. All stages but the last emit values of `In`. The chain fuses with
/// error feedback, but its stages do not fuse with each other. If the types are known at compile time, `a | b` is
/// faster.
template <real In, executor E>
class any_chain : public codec_base {
 public:
  explicit any_chain(std::vector<any_stage<In, E>> stages) : stages_(std::move(stages)) {
    detail::require(!stages_.empty(), "any_chain: stages must not be empty");
    for (std::size_t i = 0; i + 1 < stages_.size(); ++i) {
      detail::require(stages_[i].output_kind() == kind_of<In>(), "any_chain: the stage before ", stages_[i + 1].name(),
                      " must emit ", element_name<In>(), ", got ", stages_[i].name(),
                      ": put sparsifiers before quantizers");
    }
  }

  struct states {
    std::vector<any_state> each;
    void fields(field_visitor& f) {
      for (auto& state : each) state.fields(f);
    }
  };

  std::string name() const {
    auto text = std::string();
    for (auto const& s : stages_) text.append(text.empty() ? "" : "|").append(s.name());
    return text;
  }

  capabilities capabilities_for(shape dims) const {
    auto all = capabilities();
    all.omega = 0, all.delta = 1;
    all.projection = all.isometric = all.rotation = all.reproducible = true;
    all.sums = sums_as();
    all.affine = decodes_affinely();
    if (stages_.size() == 1) all.error_bound = stages_[0].capabilities_for(dims).error_bound;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      join(all, stages_[i].capabilities_for(dims), i + 1 == stages_.size());
      dims = stages_[i].output_shape(dims);
    }
    return all;
  }
  bool is_lossless(shape dims) const {
    for (auto const& s : stages_) {
      if (!s.is_lossless(dims)) return false;
      dims = s.output_shape(dims);
    }
    return true;
  }

  bool has_rate() const {
    return std::count_if(stages_.begin(), stages_.end(), [](auto const& s) { return s.has_rate(); }) == 1;
  }
  /// Sets the rate of the chain's only rate-adjustable stage. Stages without a rate are unchanged.
  any_chain at(double rate) const {
    if (!has_rate()) {
      throw std::invalid_argument(
          detail::sentence("any_chain::at: exactly one stage must have an adjustable rate, got ", name()));
    }
    auto other = *this;
    for (auto& s : other.stages_) s = s.has_rate() ? s.at(rate) : s;
    return other;
  }

  sum_form sums_as() const {
    auto form = sum_form::encode;
    for (auto const& s : stages_) {
      auto const own = s.capabilities_for({1}).sums;
      if (own == sum_form::none) return sum_form::none;
      if (own == sum_form::decode) form = own;
    }
    return form;
  }
  element_kind value_kind() const { return stages_.back().output_kind(); }
  bool decodes_affinely() const {
    return std::ranges::any_of(stages_, [](auto const& s) { return s.capabilities_for({1}).affine; });
  }

  shape output_shape(shape dims) const {
    for (auto const& s : stages_) dims = s.output_shape(dims);
    return dims;
  }
  template <std::same_as<In> T>
  std::size_t payload_bytes(shape dims) const {
    std::size_t side = 0;
    for (auto const& s : stages_) {
      side = detail::align_up(side, detail::section_alignment) + s.side_bytes(dims);
      dims = s.output_shape(dims);
    }
    auto const values = stages_.back().values_bytes(dims.n);
    return side == 0 ? values : detail::align_up(values, detail::section_alignment) + side;
  }
  template <std::same_as<In> T>
  void visit_pieces(shape dims, detail::piece_visitor& visitor) const {
    auto side = values_section(dims);
    std::uint64_t values = 0;
    for (auto const& s : stages_) {
      auto const used = s.used(dims, side, visitor);
      visitor.piece(detail::payload_piece{side, used.side});
      values = used.values;
      side += detail::align_up(s.side_bytes(dims), detail::section_alignment);
      dims = s.output_shape(dims);
    }
    visitor.piece(detail::payload_piece{0, stages_.back().values_bytes(values)});
  }
  template <std::same_as<In> T>
  std::size_t scratch_bytes(E const& exec, shape dims) const {
    std::size_t kept = 0, most = 0;
    for (auto const& s : stages_) {
      auto const rest = s.output_shape(dims);
      if (&s != &stages_.back()) kept += scratch_for<In>(rest.n);
      most = std::max(most, s.scratch_bytes(exec, dims));
      dims = rest;
    }
    return kept + most;
  }

  template <std::same_as<In> T>
  states make_replicated(E const& exec, encoding_id id, shape dims) const {
    auto made = states();
    for (auto const& s : stages_) {
      made.each.push_back(s.make_replicated(exec, id, dims));
      dims = s.output_shape(dims);
      id = next_stage(id);
    }
    return made;
  }
  template <std::same_as<In> T>
  states make_local(E const& exec, shape dims) const {
    auto made = states();
    for (auto const& s : stages_) {
      made.each.push_back(s.make_local(exec, dims));
      dims = s.output_shape(dims);
    }
    return made;
  }

  void encode_payload(context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> payload,
                      states const& replicated, states& local) const {
    clear_values(cx, payload);
    encode_stages(0, cx, x, payload, values_section(cx.dims), replicated, local);
  }
  void decode_payload(context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                      states const& replicated) const {
    decode_stages(0, cx, payload, values_section(cx.dims), x, replicated);
  }

  void require_states(states const& replicated, states const& local) const {
    require_stages(replicated);
    require_stages(local);
  }

  /// True if the chain fuses with error feedback. A chain fuses if it is a single engine, or if it begins with a
  /// sparsifier.
  template <std::same_as<E> On>
  bool can_encode_from(shape const& dims) const {
    return stages_.size() == 1 ? stages_[0].encodes_from(dims) : stages_[0].selects_from();
  }
  template <std::same_as<In> T, std::same_as<E> On, class Source>
  std::size_t scratch_bytes_from(E const& exec, shape const& dims) const {
    auto const rest = scratch_for<In>(stages_[0].output_shape(dims).n) + scratch_bytes<In>(exec, dims);
    return stages_[0].scratch_bytes_from(exec, dims) + (stages_.size() == 1 ? 0 : rest);
  }
  void encode_payload_from(context<In, E> const& cx, ext::residual_source<In> const& from,
                           span_on<E, std::byte> payload, states const& replicated, states& local) const {
    auto const section = clear_values(cx, payload);
    if (stages_.size() > 1) return encode_picked(cx, from, payload, section, replicated, local);
    stages_[0].encode_from(cx, from, payload.data(), payload.subspan(section));
  }

  /// True if the last stage is an engine that sums the ranks' values, and the earlier stages can decode the sum.
  /// Stages can decode a sum if they are linear and equal on all ranks.
  bool sums_payloads() const {
    if (stages_.size() == 1) return stages_[0].sums_parts();
    auto const decodes_sums = [](auto const& s) {
      auto const promised = s.capabilities_for({1});
      return promised.sums == sum_form::encode && !promised.affine;
    };
    return stages_.back().adds_parts() && std::all_of(stages_.begin(), stages_.end() - 1, decodes_sums);
  }
  void decode_sum_payloads(context<In, E> const& cx, span_on<E, std::byte const> in, std::size_t stride, unsigned ranks,
                           accum<In> factor, values_on<E, In> x, states const& replicated) const {
    auto const add_up = [&](auto const& s, auto const& own, auto record, auto values) {
      s.decode_sum(own, in.data(), record, stride, ranks, factor, values);
    };
    decode_stages(0, cx, in, std::min(in.size(), values_section(cx.dims)), x, replicated, add_up);
  }
  /// The maximum number of entries that the first stage emits. The later stages encode the values of these entries.
  std::uint64_t most_entries(shape const& dims) const { return stages_[0].most_entries(dims); }
  void decode_payload_entries(context<In, E> const& cx, span_on<E, std::byte const> payload,
                              ext::selected_entries<In> const& to, states const& replicated) const {
    auto const section = std::min(payload.size(), values_section(cx.dims)), own = stages_[0].side_bytes(cx.dims);
    auto const side = payload.subspan(section, own);
    if (stages_.size() == 1) return stages_[0].decode_entries(cx, payload.data(), side, to);
    auto const rest = cx.template next<In>(stages_[0].output_shape(cx.dims));
    auto const mid = cx.ws.template take<In>(rest.dims.n);
    auto const next = detail::align_up(section + own, detail::section_alignment);
    decode_stages(1, rest, payload, next, mid, replicated);
    stages_[0].decode_entries(cx, reinterpret_cast<std::byte const*>(mid.data), side, to);
  }

 private:
  /// Zeroes the unused bytes after the values. Returns the size of the section of values.
  std::size_t clear_values(context<In, E> const& cx, span_on<E, std::byte> payload) const {
    auto const section = std::min(payload.size(), values_section(cx.dims));
    detail::clear_padding<E>(cx.exec, payload.first(section), stages_.back().values_bytes(output_shape(cx.dims).n));
    return section;
  }
  /// Combines the chain's capabilities with those of the next stage, as the class `chain` does.
  static void join(capabilities& all, capabilities const& next, bool is_last) {
    all.omega = all.omega && next.omega && (is_last || next.isometric || next.rotation)
                    ? std::optional((1 + *all.omega) * (1 + *next.omega) - 1)
                    : std::nullopt;
    auto const kept = is_last ? next.contraction() : next.delta;
    auto const fits = is_last || (next.isometric && next.projection) || next.rotation;
    all.delta = all.delta && kept && fits ? std::optional(detail::joined_delta(*all.delta, *kept)) : std::nullopt;
    all.projection = all.projection && next.projection && (is_last || next.isometric);
    all.isometric = all.isometric && next.isometric;
    all.rotation = all.rotation && next.rotation;
    all.reproducible = all.reproducible && next.reproducible;
    all.rates = detail::joined_rate(all.rates, next.rates);
  }

  bool is_last(std::size_t i) const { return i + 1 == stages_.size(); }
  /// Checks the number of states. The type of the states needs no check, because it is equal for all any_chain codecs.
  void require_stages(states const& all) const {
    if (all.each.size() == stages_.size()) return;
    throw std::invalid_argument(detail::sentence("any_chain: the state of ", name(), " must have ", stages_.size(),
                                                 " stages, got ", all.each.size(),
                                                 ": pass what make_state returned for this codec"));
  }
  auto& state_of(auto& all, std::size_t i) const {
    require_stages(all);
    return all.each[i];
  }
  std::size_t values_section(shape const& dims) const {
    return detail::align_up(stages_.back().values_bytes(output_shape(dims).n), detail::section_alignment);
  }

  /// Encodes with stage i, which writes its side information at byte `side` of the payload. The last stage writes its
  /// values at the beginning of the payload.
  void encode_stages(std::size_t i, context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> payload,
                     std::size_t side, states const& replicated, states& local) const {
    auto const& s = stages_[i];
    auto const scope = cx.ws.mark();
    auto const own = s.side_bytes(cx.dims);
    auto const record = own == 0 ? span_on<E, std::byte>() : payload.subspan(side, own);
    auto const rest = cx.template next<In>(s.output_shape(cx.dims));
    auto const mid = is_last(i) ? values_on<E, In>() : cx.ws.template take<In>(rest.dims.n);
    auto* const values = is_last(i) ? payload.data() : reinterpret_cast<std::byte*>(mid.data);
    s.encode(cx, x, values, record, state_of(replicated, i), state_of(local, i));
    if (is_last(i)) return;
    auto const next = detail::align_up(side + own, detail::section_alignment);
    if (next <= payload.size()) detail::clear_padding<E>(cx.exec, payload.subspan(side, next - side), own);
    encode_stages(i + 1, rest, mid, payload, next, replicated, local);
  }
  void decode_stages(std::size_t i, context<In, E> const& cx, span_on<E, std::byte const> payload, std::size_t side,
                     values_on<E, In> x, states const& replicated) const {
    auto const decode_last = [&](auto const& s, auto const& own, auto record, auto values) {
      s.decode(own, payload.data(), record, values, state_of(replicated, stages_.size() - 1));
    };
    decode_stages(i, cx, payload, side, x, replicated, decode_last);
  }
  /// Calls last(stage, context, side information, values) for the last stage, then decodes with the earlier stages.
  template <class Last>
  void decode_stages(std::size_t i, context<In, E> const& cx, span_on<E, std::byte const> payload, std::size_t side,
                     values_on<E, In> x, states const& replicated, Last const& last) const {
    auto const& s = stages_[i];
    auto const scope = cx.ws.mark();
    auto const own = s.side_bytes(cx.dims);
    auto const record = own == 0 ? span_on<E, std::byte const>() : payload.subspan(side, own);
    if (is_last(i)) return last(s, cx, record, x);
    auto const rest = cx.template next<In>(s.output_shape(cx.dims));
    auto const mid = cx.ws.template take<In>(rest.dims.n);
    decode_stages(i + 1, rest, payload, detail::align_up(side + own, detail::section_alignment), mid, replicated, last);
    s.decode(cx, reinterpret_cast<std::byte const*>(mid.data), record, x, state_of(replicated, i));
  }

  /// The first stage selects entries from the source, and the later stages encode the entries. Then the decoded entries
  /// are written back to the source, and the source updates its residual.
  void encode_picked(context<In, E> const& cx, ext::residual_source<In> const& from, span_on<E, std::byte> payload,
                     std::size_t section, states const& replicated, states& local) const {
    auto const own = stages_[0].side_bytes(cx.dims), next = detail::align_up(section + own, detail::section_alignment);
    auto const rest = cx.template next<In>(stages_[0].output_shape(cx.dims));
    auto const n = rest.dims.n;
    auto* const indices = cx.ws.template take<std::uint32_t>(n).data;
    auto const values = cx.ws.template take<In>(n), old = cx.ws.template take<In>(n);
    auto const picked = ext::selected_entries<In>{indices, values.data, old.data};
    stages_[0].select_from(cx, from, picked, payload.subspan(section, own));
    if (next <= payload.size()) detail::clear_padding<E>(cx.exec, payload.subspan(section, next - section), own);
    encode_stages(1, rest, values, payload, next, replicated, local);
    auto const sent = cx.ws.template take<In>(n);
    decode_stages(1, rest, payload, next, sent, replicated);
    stages_[0].write_back(cx, from, picked, sent.data);
  }

  std::vector<any_stage<In, E>> stages_;
};

}  // namespace pith::inline v0
