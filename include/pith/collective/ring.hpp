// pith/collective/ring.hpp — a ring all-reduce with compressed segments.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/collective/detail/codec_exchange.hpp>
#include <pith/collective/tensor_parts.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/source.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Returns the rounded product share * x. No compiler can fuse the multiplication with a later addition, because an
/// integer addition lies between the two. The added integer is the sign bit of `share`, which is 0, since `share` is
/// positive.
PITH_HD inline double unfused_product(double share, double x) {
  return bits_as<double>(bits_as<std::uint64_t>(share * x) + (bits_as<std::uint64_t>(share) >> 63));
}

/// A value source that returns the received partial mean of a segment, plus `share` times this rank's own gradient. A
/// product of two floats is exact in double precision, so a fused multiply-add does not change the result. A product of
/// two doubles is not exact, so `unfused_product` computes it.
template <class In>
struct share_source {
  static constexpr bool stores_residual = false;
  using A = accum<In>;

  In const* sum;
  In const* x;
  A share;

  PITH_HD A operator()(std::uint64_t i) const {
    auto const own = product(share, element_cast<double>(x[i])), before = element_cast<double>(sum[i]);
    return element_cast<A>(bounded(before + own, is_finite(before) && is_finite(own)));
  }
  PITH_HD share_source tail(std::uint64_t first) const { return {sum + first, x + first, share}; }

  template <class Team, class Count>
  PITH_HD A const* load(Team const& team, std::uint64_t first, Count count, A* room) const {
    auto const from = tail(first);
    fetch_ahead<Team>(from.x, count);
    team.for_each(count, [=](std::uint32_t i) { room[i] = from(i); });
    return room;
  }

 private:
  /// Rounds a partial mean to In. Rounding errors of the ranks may lift the mean of finite values above the largest value.
  PITH_HD static In bounded(double mean, bool is_of_finite) {
    constexpr double most = largest_finite<In>;
    return element_cast<In>(is_of_finite && mean > most ? most : is_of_finite && mean < -most ? -most : mean);
  }
  PITH_HD static double product(double share, double x) {
    return std::same_as<In, double> ? unfused_product(share, x) : share * x;
  }
};

/// to[i] = from(i).
template <class In>
struct take_share {
  share_source<In> from;
  In* to;
  PITH_HD void operator()(std::uint64_t i) const { to[i] = element_cast<In>(from(i)); }
};

/// The schedule of the ring. The tensor has two halves, and each half has `ranks` segments. Segment s of half b is part
/// 2 s + b of the tensor. Rounds alternate between the halves, so each half makes one hop in every second round. In hop
/// h of a half, each rank sends segment (rank - h) mod ranks. In the first `ranks` hops, a rank adds 1 / ranks of its
/// own gradient to a segment before it sends the segment. In later hops, a rank forwards the received payload.
struct ring_hops {
  unsigned ranks;

  unsigned count() const { return std::max(1u, 2 * (ranks - 1)); }
  unsigned rounds() const { return 2 * count(); }
  static unsigned hop(unsigned round) { return round / 2; }

  bool adds(unsigned round) const { return hop(round) < ranks; }
  bool completes(unsigned round) const { return hop(round) == ranks - 1; }
  /// Whether the segment that a rank receives in this round is a partial mean.
  bool receives_partial(unsigned round) const { return hop(round) + 1 < ranks; }

  /// The part that a rank sends in this round. Even parts belong to one half, and odd parts to the other half.
  unsigned sent(unsigned round, unsigned rank) const {
    return 2 * ((rank + 2 * ranks - hop(round)) % ranks) + round % 2;
  }
  unsigned received(unsigned round, unsigned rank) const { return sent(round, before(rank)); }
  unsigned before(unsigned rank) const { return (rank + ranks - 1) % ranks; }
  /// The rank that is the last to add its gradient to a part.
  unsigned completer(unsigned part) const { return before(part / 2); }
  /// Whether a rank is the first rank to send a part.
  static bool begins(unsigned part, unsigned rank) { return part / 2 == rank; }
};

}  // namespace detail

/// Exchanges a tensor around a ring of N ranks, in two halves of N segments. Each rank decodes a segment from its
/// predecessor, adds 1 / N of its own gradient and encodes the sum for its successor. After N encodings the segment is
/// the mean, and the ranks forward the mean's payload unchanged. Each link carries 2 (N - 1) / N times the payload of
/// the tensor. A rank communicates with only two ranks. While a segment of one half is transferred, a segment of the
/// other half is decoded, added and encoded.
///
///   requires    a C without state (std::invalid_argument); a communicator with send_recv. Segments begin at multiples
///               of 512 elements, so a smaller tensor has one segment. Each segment is encoded as a separate vector. So
///               quantizer buckets begin at its first element, a bucket size of 0 means one bucket per segment, and a
///               sparsifier computes k from the size of the segment
///   state       three payloads of the tensor, which a saved state omits
///   complexity  encodes n elements and decodes 2 n, with 4 (N - 1) shifts; needs the scratch of C and space for one
///               segment
///   errors      each segment is encoded N times, once per partial mean. So the mean contains N compression errors. For
///               half and bfloat16, each partial mean is also rounded to In. So half values below N 2^-14 lose digits
///   properties  outside an exchange, ring behaves as the codec C. In error_feedback(ring), the residual is p - N d,
///               where p is the compensated gradient. For each segment, d is the decoded sum that this rank encoded
///               minus the decoded partial mean that this rank received. Where N d overflows, the residual becomes 0
///   reference   Yu, Lin, Narra, Li, Li, Kim, Schwing, Annavaram and Avestimehr, GradiVeQ, NeurIPS 2018. The paper adds
///               encoded segments around a ring. `ring` decodes a segment before it adds, so the payloads of C need not
///               be summable
template <class C>
class ring : public detail::codec_exchange<C> {
  using base = detail::codec_exchange<C>;
  using base::codec_part, base::wrapped;

 public:
  /// A round can be produced before the previous round is absorbed, since successive rounds belong to different halves.
  unsigned depth() const { return 2; }

  explicit ring(C codec) : base("ring", std::move(codec)) {}

  std::string name() const { return detail::text("ring(", wrapped().name(), ")"); }

  /// The payloads of all parts: `came` has the received partial means, `made` has this rank's encoded sums, and `means`
  /// has the means. All rounds of a step use these payloads, and a saved state omits them.
  template <class E>
  struct between {
    buffer<std::byte, E> came, made, means;
    void fields(field_visitor&) {}
  };

  template <class In, executor E>
  auto make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    return base::template replicated_with<In>(exec, id, dims);
  }
  template <class In, executor E>
  auto make_local(E const& exec, shape const& dims) const {
    auto const room = max_bytes<In>(dims.n);
    return base::template local_with<In>(exec, dims, between<E>{{exec, room}, {exec, room}, {exec, room}});
  }

  unsigned rounds(shape const&, unsigned ranks) const { return detail::ring_hops{ranks}.rounds(); }
  /// The last round that reads the gradient.
  unsigned contributing_round(unsigned ranks) const { return 2 * ranks - 1; }
  template <class In>
  transfer round(unsigned, shape const& dims, unsigned ranks) const {
    return {transport::ring_shift, element_kind::bytes, detail::part_bytes<In>(wrapped(), parts(dims, ranks)), 1};
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned ranks) const {
    auto const part = shape{parts(dims, ranks).size};
    auto most = detail::scratch_bytes<In>(wrapped(), exec, part);
    if constexpr (takes_source<In, E>)
      most = std::max(most, detail::scratch_bytes_from<In, detail::share_source<In>>(wrapped(), exec, part));
    return scratch_for<In>(part.n) + most;
  }

  template <real In, executor E>
    requires codec<C, In, E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               auto const& replicated, auto& local) const {
    auto const hops = detail::ring_hops{cx.ranks};
    auto const over = parts(cx.dims, cx.ranks);
    auto const part = hops.sent(round, cx.id.rank);
    if (hops.adds(round)) add_own<In>(cx, over, part, x, replicated, local);
    auto const made = slot<In, E>(over, part, hops.adds(round) ? payloads(local).made : payloads(local).means);
    if (hops.completes(round))
      cx.exec.copy(slot<In, E>(over, part, payloads(local).means).data(), made.data(), made.size());
    cx.exec.copy(out.data(), made.data(), made.size());
    detail::clear_padding<E>(cx.exec, out, made.size());
  }
  template <real In, executor E>
    requires codec<C, In, E>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x, auto& replicated,
              auto& local) const {
    auto const hops = detail::ring_hops{cx.ranks};
    auto const over = parts(cx.dims, cx.ranks);
    auto const part = hops.received(round, cx.id.rank);
    auto const to =
        slot<In, E>(over, part, hops.receives_partial(round) ? payloads(local).came : payloads(local).means);
    cx.exec.copy(to.data(), in.bytes.data(), to.size());
    if (round + 1 < hops.rounds()) return;
    for (unsigned p = 0; p < 2 * cx.ranks; ++p)
      decode_part<In>(cx.from_rank(hops.completer(p)), over, p, slot<In, E>(over, p, payloads(local).means),
                      part_of<In, E>(x, over, p), replicated);
  }

  /// For each part, sets `sent` to ranks x (decoded `made` - decoded `came`).
  template <real In, executor E>
    requires codec<C, In, E>
  void delivered(context<In, E> const& cx, values_on<E, In const>, values_on<E, In const>, values_on<E, In> sent,
                 auto const& replicated, auto const& local) const {
    auto const hops = detail::ring_hops{cx.ranks};
    auto const over = parts(cx.dims, cx.ranks);
    for (unsigned p = 0; p < 2 * cx.ranks; ++p) {
      auto const scope = cx.ws.mark();
      auto const n = over.dims(p).n;
      auto const to = part_of<In, E>(sent, over, p), before = cx.ws.template take<In>(n);
      decode_part<In>(cx, over, p, slot<In, E>(over, p, payloads(local).made), to, replicated);
      cx.exec.fill(before.data, std::byte{}, value_bytes<In>(n));
      if (!hops.begins(p, cx.id.rank))
        decode_part<In>(cx.from_rank(hops.before(cx.id.rank)), over, p, slot<In, E>(over, p, payloads(local).came),
                        before, replicated);
      cx.exec.for_each_index(n, detail::scale_difference<In>{before.data, to.data, static_cast<accum<In>>(cx.ranks)});
    }
  }

 private:
  static auto& payloads(auto& states) { return std::get<1>(states.each); }

  template <class In, class E>
  static constexpr bool takes_source = detail::reads_source<C, In, E, detail::share_source<In>>;

  static constexpr std::uint64_t min_part = 512;

  std::uint64_t parts_granule() const { return detail::common_granule(detail::part_granule(wrapped()), min_part); }
  tensor_parts parts(shape const& dims, unsigned ranks) const { return {dims.n, 2 * ranks, parts_granule()}; }

  /// The total size of the parts' payloads, as a maximum over all numbers of ranks. More ranks make smaller parts, so
  /// the loop ends at parts of `parts_granule()` elements, which is the smallest size.
  template <class In>
  std::size_t max_bytes(std::uint64_t n) const {
    std::size_t most = 0;
    for (unsigned ranks = 1; n > 0; ++ranks) {
      auto const over = parts({n}, ranks);
      most = std::max(most, (n / over.size + (n % over.size != 0)) * detail::part_bytes<In>(wrapped(), over));
      if (over.size <= parts_granule()) break;
    }
    return most;
  }

  /// The payload of a part; empty for an empty part.
  template <class In, class E>
  span_on<E, std::byte> slot(tensor_parts const& over, unsigned part, buffer<std::byte, E> const& all) const {
    auto const n = over.dims(part).n;
    if (n == 0) return all.view().first(0);
    return all.view().subspan(part * detail::part_bytes<In>(wrapped(), over), pith::payload_bytes<In>(wrapped(), {n}));
  }
  template <class In, class E>
  static values_on<E, In> part_of(values_on<E, In> x, tensor_parts const& over, unsigned part) {
    return {x.data + over.first(part), over.dims(part).n};
  }

  template <class In, class E>
  void decode_part(context<In, E> const& cx, tensor_parts const& over, unsigned part,
                   span_on<E, std::byte const> payload, values_on<E, In> x, auto const& replicated) const {
    if (over.dims(part).n == 0) return;
    detail::decode_payload(wrapped(), detail::part_of(cx, over, part), payload, x, codec_part(replicated));
  }

  /// Adds 1 / N of this rank's gradient to the received partial mean of a part, and encodes the sum. The first rank
  /// that sends a part encodes only 1 / N of its gradient.
  template <class In, class E>
  void add_own(context<In, E> const& cx, tensor_parts const& over, unsigned part, values_on<E, In const> x,
               auto const& replicated, auto& local) const {
    auto const hops = detail::ring_hops{cx.ranks};
    auto const of = detail::part_of(cx, over, part);
    if (of.dims.n == 0) return;
    auto const sum = cx.ws.template take<In>(of.dims.n);
    auto const share = accum<In>{1} / static_cast<accum<In>>(cx.ranks);
    auto const* const own = x.data + over.first(part);
    auto const to = slot<In, E>(over, part, payloads(local).made);
    if (!hops.begins(part, cx.id.rank)) {
      decode_part<In>(cx.from_rank(hops.before(cx.id.rank)), over, part, slot<In, E>(over, part, payloads(local).came),
                      sum, replicated);
      return encode_sum<In>(of, {sum.data, own, share}, sum, to, replicated, local);
    }
    cx.exec.for_each_index(of.dims.n, detail::scale<In, In>{own, sum.data, share});
    detail::encode_payload<In>(wrapped(), of, values_on<E, In const>(sum), to, codec_part(replicated),
                               codec_part(local));
  }

  /// Encodes the values of a source. If the codec cannot read a source, the values are first written to `sum`.
  template <class In, class E>
  void encode_sum(context<In, E> const& cx, detail::share_source<In> const& from, values_on<E, In> sum,
                  span_on<E, std::byte> to, auto const& replicated, auto& local) const {
    if constexpr (takes_source<In, E>) {
      if (wrapped().template can_encode_from<E>(cx.dims))
        return detail::encode_from<In>(wrapped(), cx, from, to, codec_part(replicated), codec_part(local));
    }
    cx.exec.for_each_index(cx.dims.n, detail::take_share<In>{from, sum.data});
    detail::encode_payload<In>(wrapped(), cx, values_on<E, In const>(sum), to, codec_part(replicated),
                               codec_part(local));
  }
};

}}  // namespace pith::PITH_ABI
