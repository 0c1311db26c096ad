// pith/collective/two_shot.hpp — a compressed reduce-scatter, followed by a compressed all-gather.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/collective/detail/codec_exchange.hpp>
#include <pith/collective/tensor_parts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The payload of a part. The second transfer sends this payload, and a saved state omits it.
template <class E>
struct part_payload {
  buffer<std::byte, E> bytes;
  void fields(field_visitor&) {}
};

/// The rank-local state of a codec that encodes one part, with capacity for n elements.
template <class State>
struct part_state {
  State state;
  std::uint64_t n, granule;
  void fields(field_visitor& f) { f.of_part(state, n, granule); }
};

}  // namespace detail

/// Exchanges a tensor in N parts, one per rank. Each rank encodes its gradient with `First`, and sends part r to rank
/// r. Rank r decodes part r of all gradients, and encodes the mean of these parts with `Second`. All ranks then
/// all-gather the encoded means. A rank sends 2 (N - 1) / N times the payload of the tensor. In an all-gather of
/// payloads, a rank would send N - 1 times the payload.
///
///   requires    a First without state (std::invalid_argument); a communicator with all_to_all. Parts begin at
///               multiples of 8 elements. Each part is encoded as a separate vector. So quantizer buckets begin at its
///               first element, a bucket size of 0 means one bucket per part, and a sparsifier computes k from the size
///               of the part
///   state       the state of Second; a buffer for one payload of Second, which a saved state omits
///   complexity  encodes n + n / N elements and decodes 2 n; two transfers; scratch for a part
///   errors      each mean contains the ranks' compression errors of First, and one compression error of Second. If
///               Second is an error_feedback, Second adds its error in one step to the mean of the next step. For half
///               and bfloat16, each decoded mean is also rounded to In, and only the residual of
///               error_feedback(two_shot) would contain this error
///   properties  outside an exchange, two_shot behaves as the codec First. The residual of error_feedback(two_shot) is
///               the rank's own compression error of First
///   reference   quantization before and after the sum: Alistarh et al., QSGD, NeurIPS 2017. Feedback for both
///               encodings: Tang et al., DoubleSqueeze, ICML 2019
template <class First, class Second = First>
class two_shot : public detail::codec_exchange<First> {
  using base = detail::codec_exchange<First>;
  using base::codec_part, base::wrapped;

 public:
  static constexpr codec_traits traits = {.reproducible = reproducible<First> && reproducible<Second>,
                                          .votes = traits_of<First>.votes};

  explicit two_shot(First codec) requires std::same_as<First, Second> : two_shot(codec, codec) {}
  two_shot(First first, Second second)
      : base("two_shot", std::move(first)), second_(std::move(second)), is_one_(wrapped().name() == second_.name()) {
    explain_facets<Second>();
    detail::require_inner(second_);
  }

  std::string name() const {
    return detail::text("two_shot(", wrapped().name(), is_one_ ? "" : detail::text(",", second_.name()), ")");
  }

  capabilities capabilities_for(shape const& dims) const requires(detail::erased<First> || detail::erased<Second>) {
    auto of = base::exchanged(wrapped(), dims);
    of.reproducible = of.reproducible && capabilities_of(second_, vector(dims.n)).reproducible;
    return of;
  }

  void visit_feedback(detail::feedback_scope const& at, auto& replicated, auto& local, auto& places) const {
    if (at.ranks == 0) return;
    auto const over = parts(shape{at.n}, at.ranks);
    auto const before = places.size();
    second_.visit_feedback(at.part(at.rank, at.ranks, over.size), second_replicated(replicated), second_local(local),
                           places);
    auto const is_used = !second_.is_lossless(over.dims(at.rank));  // `bypass` may send the part uncompressed
    for (auto i = before; i < places.size(); ++i) places[i].is_used = places[i].is_used && is_used;
  }
  template <executor E>
  void rescale(E const& exec, double factor, auto& replicated, auto& local) const {
    second_.rescale(exec, factor, second_replicated(replicated), second_local(local));
  }

  template <class In, executor E>
  auto make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    if constexpr (collective<Second, In, E>) base::template require_no_rounds<In>(second_, vector(dims.n));
    detail::require(!second_.changes_mean(), "two_shot: the feedback of the codec of means must not change means, got ",
                    second_.name(), ": put this policy around the exchange, ef(two_shot(c, d), policy)");
    return base::template replicated_with<In>(exec, id, dims,
                                              pith::make_replicated<In>(exec, second_, id, shape{dims.n}));
  }
  template <class In, executor E>
  auto make_local(E const& exec, shape const& dims) const {
    using second = detail::part_state<local_of<Second, In, E>>;
    auto const all = shape{dims.n};  // a part of a matrix is a vector too
    return base::template local_with<In>(exec, dims,
                                         second{pith::make_local<In>(exec, second_, all), all.n, parts_granule()},
                                         detail::part_payload<E>{{exec, max_bytes<In>(all)}});
  }

  unsigned rounds(shape const&, unsigned) const { return 2; }
  /// The last round that reads the gradient. After this round, contribution() can decode the payloads that this rank
  /// encoded.
  unsigned contributing_round(unsigned) const { return 0; }
  template <class In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const {
    auto const over = parts(dims, ranks);
    if (r == 0) return {transport::all_to_all, element_kind::bytes, detail::part_bytes<In>(wrapped(), over)};
    return {transport::all_gather, element_kind::bytes, detail::part_bytes<In>(second_, over)};
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned ranks) const {
    auto const over = parts(dims, ranks);
    return scratch_for<In>(over.size) + std::max(detail::part_mean_scratch_bytes<In>(wrapped(), exec, over, ranks),
                                                 detail::scratch_bytes<In>(second_, exec, over.largest()));
  }

  template <real In, executor E>
    requires codec<First, In, E> && codec<Second, In, E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               auto const& replicated, auto& local) const {
    auto const over = parts(cx.dims, cx.ranks);
    if (round == 1) return copy_part<In>(cx.exec, over.dims(cx.id.rank), payload(local), out);
    detail::encode_parts<In>(wrapped(), cx, over, x, out, codec_part(replicated), codec_part(local));
  }
  template <real In, executor E>
    requires codec<First, In, E> && codec<Second, In, E>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x, auto& replicated,
              auto& local) const {
    auto const over = parts(cx.dims, cx.ranks);
    if (round == 0) return add_up(cx, over, in, replicated, local);
    detail::decode_parts(second_, cx, over, in, x, second_replicated(replicated));
  }
  template <real In, executor E>
    requires codec<First, In, E>
  void contribution(context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
                    auto const& replicated) const {
    detail::decode_own_parts(wrapped(), cx, parts(cx.dims, cx.ranks), produced, sent, codec_part(replicated));
  }

 private:
  static auto& second_replicated(auto& states) { return std::get<1>(states.each); }
  static auto& second_local(auto& states) { return std::get<1>(states.each).state; }
  static auto& payload(auto& states) { return std::get<2>(states.each).bytes; }

  std::uint64_t parts_granule() const { return detail::granule_for(wrapped(), second_); }
  /// The largest payload size of a part. If Second is lossless for small tensors, the payload of a small part may be
  /// larger than the payload of the whole tensor. The last part may have one element.
  template <class In>
  std::size_t max_bytes(shape const& all) const {
    auto const dense = second_.is_lossless({1}) ? value_bytes<In>(all.n) : 0;
    return std::max(dense, pith::payload_bytes<In>(second_, all));
  }
  tensor_parts parts(shape const& dims, unsigned ranks) const { return parts_for(dims.n, ranks, wrapped(), second_); }

  /// Computes the mean of this rank's part from all ranks' payloads, and encodes the mean for all ranks.
  template <class In, class E>
  void add_up(context<In, E> const& cx, tensor_parts const& over, received_on<E> in, auto& replicated,
              auto& local) const {
    auto const own = detail::mean_part_of(cx, over, cx.id.rank);
    auto const mean = cx.ws.template take<In>(own.dims.n);
    detail::decode_part_mean(wrapped(), cx, over, in, mean, codec_part(replicated));
    detail::encode_payload<In>(second_, own, mean,
                               payload(local).view().first(pith::payload_bytes<In>(second_, own.dims)),
                               second_replicated(replicated), second_local(local));
  }
  template <class In, class E>
  void copy_part(E const& exec, shape const& part, buffer<std::byte, E> const& from, span_on<E, std::byte> out) const {
    auto const used = pith::payload_bytes<In>(second_, part);
    exec.copy(out.data(), from.data(), used);
    detail::clear_padding<E>(exec, out, used);
  }

  Second second_;
  bool is_one_;
};

}}  // namespace pith::PITH_ABI
