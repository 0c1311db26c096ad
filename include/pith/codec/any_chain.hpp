// pith/codec/any_chain.hpp — a chain whose stages are chosen at run time, with the same payloads as the class `chain`.
#pragma once

#include <pith/codec/any_stage.hpp>
#include <pith/codec/codec_base.hpp>
#include <pith/codec/detail/chain_walk.hpp>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A chain of type-erased stages, in the order in which they encode. All stages but the last emit values of `In`. The
/// chain can fuse with error feedback (can_encode_from), but its stages do not fuse with each other. If the types of
/// the stages are known at compile time, the class `chain` (`a | b`) is faster than any_chain.
template <real In, executor E>
class any_chain : public codec_base {
 public:
  using facets = ext::computed;

  explicit any_chain(std::vector<any_stage<In, E>> stages) : stages_(std::move(stages)) {
    detail::require(!stages_.empty(), "any_chain: stages must not be empty");
    detail::require(stages_.size() <= detail::max_stages, "any_chain: stages must have at most ", detail::max_stages,
                    " entries, got ", stages_.size());
    for (std::size_t i = 0; i + 1 < stages_.size(); ++i) {
      auto const kind = stages_[i].output_kind();
      detail::require(kind == kind_of<In>(), "any_chain: the stage before ", stages_[i + 1].name(), " must emit ",
                      element_name<In>(), ", got ", stages_[i].name(),
                      kind == element_kind::bytes ? ": put sparsifiers before quantizers"
                                                  : ": no stage can follow one that changes the element type");
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
  /// Returns a chain in which the only stage with an adjustable rate has this rate. Throws std::invalid_argument if the
  /// number of stages with an adjustable rate is not 1.
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

  /// Parts of a tensor begin at multiples of this number of elements.
  std::uint64_t granule() const { return stages_[0].granule(); }
  shape output_shape(shape dims) const {
    for (auto const& s : stages_) dims = s.output_shape(dims);
    return dims;
  }
  template <std::same_as<In> T>
  std::size_t payload_bytes(shape const& dims) const {
    auto const side = detail::side_bytes_of<In>(tail(), dims);
    return side == 0 ? stages_.back().values_bytes(output_shape(dims).n) : values_section(dims) + side;
  }
  template <std::same_as<In> T>
  void visit_pieces(shape dims, detail::piece_visitor& visitor) const {
    auto side = values_section(dims);
    std::uint64_t values = 0;
    for (auto const& s : stages_) {
      auto const used = s.used(dims, side, visitor);
      visitor.piece(detail::payload_piece{side, used.side});
      values = used.values;
      side += detail::padded_side_bytes<In>(s, dims);
      dims = s.output_shape(dims);
    }
    visitor.piece(detail::payload_piece{0, stages_.back().values_bytes(values)});
  }
  template <std::same_as<In> T>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return detail::scratch_bytes_of<In>(tail(), exec, dims, scratch_bytes_of_last(exec, dims));
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
    require_states(replicated, local);
    detail::encode_stages(tail(), cx, x, cleared_sections(cx, payload), replicated, local);
  }
  void decode_payload(context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                      states const& replicated) const {
    require_stages(replicated);
    detail::decode_stages(tail(), cx, sections(cx.dims, payload), x, replicated);
  }

  void require_states(states const& replicated, states const& local) const {
    require_stages(replicated);
    require_stages(local);
  }

  /// True if the chain can read its input from a source, so that error feedback can encode in one pass. If the chain
  /// has one stage, this stage must encode from a source. Otherwise, the first stage must be a sparsifier that selects
  /// entries from a source.
  template <std::same_as<E> On>
  bool can_encode_from(shape const& dims) const {
    return stages_.size() == 1 ? stages_[0].can_encode_from(dims) : stages_[0].selects_from();
  }
  template <std::same_as<In> T, std::same_as<E> On, class Source>
  std::size_t scratch_bytes_from(E const& exec, shape const& dims) const {
    if (stages_.size() == 1) return stages_[0].template scratch_bytes_from<In, E, Source>(exec, dims);
    return detail::scratch_bytes_of_selected<In, Source>(tail(), exec, dims, scratch_bytes_of_last(exec, dims));
  }
  void encode_from(context<In, E> const& cx, ext::residual_source<In> const& from, span_on<E, std::byte> payload,
                   states const& replicated, states& local) const {
    require_states(replicated, local);
    auto const y = cleared_sections(cx, payload);
    if (stages_.size() == 1) return stages_[0].encode_from(cx, from, y);
    detail::encode_selected(tail(), cx, from, y, replicated, local);
  }

  /// True if decode_ranks may be called: the last stage has decode_ranks, and the earlier stages can decode a sum,
  /// because they are linear and equal on all ranks. If there are earlier stages, decode_ranks must not return a majority
  /// vote.
  bool can_decode_ranks() const {
    auto const& last = stages_.back();
    if (stages_.size() == 1 || !last.can_decode_ranks()) return last.can_decode_ranks();
    auto const decodes_sums = [](auto const& s) {
      auto const promised = s.capabilities_for({1});
      return promised.sums == sum_form::encode && !promised.affine;
    };
    return !last.capabilities_for({1}).votes && std::all_of(stages_.begin(), stages_.end() - 1, decodes_sums);
  }
  void decode_ranks(context<In, E> const& cx, received_on<E> in, accum<In> factor, values_on<E, In> x,
                    states const& replicated) const {
    require_stages(replicated);
    auto const add_up = [&](auto const& end, auto const& own, auto y, auto values) {
      end.first().decode_ranks(own, gathered_on<E, In>{y, in.stride, cx.ranks}, factor, values);
    };
    detail::decode_stages(tail(), cx, sections(cx.dims, in.bytes), x, replicated, add_up);
  }
  /// The maximum number of entries that the first stage emits. The later stages encode the values of these entries.
  std::uint64_t max_entries(shape const& dims) const { return stages_[0].max_entries(dims); }
  void decode_entries(context<In, E> const& cx, span_on<E, std::byte const> payload,
                      ext::selected_entries<In> const& to, states const& replicated) const {
    require_stages(replicated);
    auto const y = sections(cx.dims, payload);
    if (stages_.size() == 1) return stages_[0].decode_entries(cx, y, to);
    detail::decode_entries_of(tail(), cx, y, to, replicated);
  }

 private:
  /// The stages from an index to the last stage.
  struct tail_from {
    static constexpr bool may_end = true, may_continue = true;

    std::vector<any_stage<In, E>> const& row;
    std::size_t index;

    bool is_last() const { return index + 1 == row.size(); }
    auto const& first() const { return row[index]; }
    tail_from rest() const { return {row, index + 1}; }
    auto& state_in(auto& states) const { return states.each[index]; }
  };
  tail_from tail() const { return {stages_, 0}; }

  /// A view of a payload as values and side information.
  template <class Byte>
  auto sections(shape const& dims, span_on<E, Byte> payload) const {
    using element = std::conditional_t<std::is_const_v<Byte>, In const, In>;
    auto const section = std::min(payload.size(), values_section(dims));
    return encoded_on<E, element>{{reinterpret_cast<element*>(payload.data()), output_shape(dims).n, nullptr},
                                  payload.subspan(section)};
  }
  /// Zeroes the padding after the values of a payload. Returns a view of the payload, as `sections` does.
  encoded_on<E, In> cleared_sections(context<In, E> const& cx, span_on<E, std::byte> payload) const {
    auto const y = sections(cx.dims, payload);
    auto const section = payload.first(payload.size() - y.side.size());
    detail::clear_padding<E>(cx.exec, section, stages_.back().values_bytes(y.values.capacity));
    return y;
  }
  std::size_t scratch_bytes_of_last(E const& exec, shape dims) const {
    for (std::size_t i = 0; i + 1 < stages_.size(); ++i) dims = stages_[i].output_shape(dims);
    return stages_.back().template scratch_bytes<In>(exec, dims);
  }
  /// Updates `all`, the capabilities of a chain's first stages, for one more stage with the capabilities `next`. The
  /// class `chain` documents the formulas of omega and delta.
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
    all.votes = next.votes;
    all.rates = detail::joined_rate(all.rates, next.rates);
  }

  /// Throws std::invalid_argument if the number of states differs from the number of stages. The type of the states
  /// needs no check, because it is the same for all any_chain codecs.
  void require_stages(states const& all) const {
    if (all.each.size() == stages_.size()) return;
    throw std::invalid_argument(detail::sentence("any_chain: the state of ", name(), " must have ", stages_.size(),
                                                 " stages, got ", all.each.size(),
                                                 ": pass what make_state returned for this codec"));
  }
  std::size_t values_section(shape const& dims) const {
    return detail::align_up(stages_.back().values_bytes(output_shape(dims).n), detail::section_alignment);
  }

  std::vector<any_stage<In, E>> stages_;
};

}}  // namespace pith::PITH_ABI
