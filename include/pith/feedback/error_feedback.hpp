// pith/feedback/error_feedback.hpp — a codec with a feedback policy.
#pragma once

#include <pith/adaptor/detail/adaptor.hpp>
#include <pith/codec/capability.hpp>
#include <pith/codec/compact.hpp>
#include <pith/codec/detail/contraction.hpp>
#include <pith/codec/detail/own_share.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/core/error.hpp>
#include <pith/feedback/detail/feedback_way.hpp>
#include <pith/feedback/detail/policy_check.hpp>
#include <pith/feedback/detail/widened.hpp>
#include <pith/feedback/residual.hpp>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace pith { inline namespace PITH_ABI {

struct unverified_t {};
/// A tag: error_feedback(c, unverified) accepts a codec c that does not declare a contraction.
inline constexpr unverified_t unverified{};

/// The feedback policy `F` computes p from the gradient g and the policy's state, and the codec `C` encodes p. `F` then
/// stores the compression error. With the default policy `residual`, p is g plus the residual.
///
///   requires    a C that contracts for the tensor's shape (delta > 0, or omega < 1) or has an absolute error bound.
///               With other codecs, whose residual can grow without bound, make_state throws std::invalid_argument. A
///               memoryless policy accepts any C
///   state       the states of F and C. If F is residual, its state is n rank-local elements of accum<In>
///   complexity  one pass over g and the residual if C encodes from a source (core/source.hpp), as quantizers and top_k
///               do; three passes with power_sgd. For other codecs, one additional decoding, and scratch memory of 2 n
///               elements of accum<In> in addition to C's scratch memory
///   properties  terminal: `|` cannot append a stage. With F = residual, the sum of the decoded payloads plus the
///               residual equals the sum of the gradients
///   reference   Stich, Cordonnier and Jaggi 2018; Karimireddy et al. 2019
template <class C, class F = residual<>>
class error_feedback : public detail::adaptor<error_feedback<C, F>, C> {
  using base = detail::adaptor<error_feedback<C, F>, C>;
  using base::codec_, base::codec_part;
  using feedback_way = detail::feedback_way;
  static_assert(!traits_of<C>.terminal,
                "pith: error_feedback(c) needs a stage or a chain of them: write bypass(error_feedback(c), n), not "
                "error_feedback(bypass(c, n))");
  static_assert(detail::erased_feedback<F> || feedback<F, float, archetype>,
                "pith: error_feedback(c, f) needs a feedback policy f: name, compensate (which changes no state), "
                "update and rescale(exec, factor, replicated, local)");

 public:
  static constexpr codec_traits traits = {
      .reproducible = reproducible<C> && reproducible<F>,
      .votes = traits_of<C>.votes,
      .terminal = true,
      .rates = detail::memoryless<F> ? traits_of<C>.rates : detail::fed_back_rate(traits_of<C>.rates)};

  explicit error_feedback(C codec, F policy = F()) : error_feedback(std::move(codec), std::move(policy), true) {
    static_assert(detail::may_contract<C> || detail::memoryless<F>,
                  "pith: error_feedback(c) needs a c that promises to contract: one with delta, omega or error_bound; "
                  "for any other write error_feedback(c, unverified)");
  }
  error_feedback(C codec, unverified_t) : error_feedback(std::move(codec), F(), false) {}
  error_feedback(C codec, F policy, unverified_t) : error_feedback(std::move(codec), std::move(policy), false) {}

  C const& codec() const { return codec_; }
  F const& policy() const { return policy_; }

  std::string name() const {
    auto const how = policy_.name() == "residual" ? "" : detail::text(",", policy_.name());
    return detail::text("ef(", codec_.name(), how, verified_ ? ")" : ",unverified)");
  }
  bool is_lossless(shape const& dims) const {
    return codec_.is_lossless(dims) && !detail::may_be_lossy(codec_, dims) &&
           !detail::feedback_traits_of(policy_).changes_gradients;
  }
  capabilities capabilities_for(shape const& dims) const requires(detail::erased<C> || detail::erased_feedback<F>) {
    auto of = capabilities();
    auto const inner = capabilities_of(codec_, dims);
    auto const policy = detail::feedback_traits_of(policy_);
    of.reproducible = inner.reproducible && policy.reproducible;
    of.votes = inner.votes;
    of.rates = policy.is_memoryless ? inner.rates : detail::fed_back_rate(inner.rates);
    return of;
  }

  /// Appends the policy, and the policies inside the codec. Their residuals have the policy's unit.
  void visit_feedback(detail::feedback_scope at, auto& replicated, auto& local, auto& places) const {
    detail::append_places(policy_, at, policy_part(replicated), policy_part(local), places);
    at.weight /= detail::unit_of(policy_);
    codec_.visit_feedback(at, codec_part(replicated), codec_part(local), places);
  }

  template <executor E>
  void rescale(E const& exec, double factor, auto& replicated, auto& local) const {
    codec_.rescale(exec, factor, codec_part(replicated), codec_part(local));
    policy_.rescale(exec, factor, policy_part(replicated), policy_part(local));
  }

  template <class In, executor E>
  auto make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    auto made = replicated_states<In, E>{{pith::make_replicated<accum<In>>(exec, codec_, id, dims),
                                          pith::make_replicated<In>(exec, policy_, id, kept(dims))}};
    if constexpr (traits_of<C>.scatters) require_own_feedback(policy_part(made));
    return made;
  }
  template <class In, executor E>
  auto make_local(E const& exec, shape const& dims) const {
    static_assert(detail::declared_updates_on<F>() != feedback_on::own || reports_own_part<In, E>,
                  "pith: error_feedback(c, own_residual()) needs a c that returns a rank's own part of the mean; write "
                  "mean_residual() or no policy");
    auto const policy = detail::feedback_traits_of(policy_);
    if constexpr (!reports_own_part<In, E>) {
      detail::require(policy.updates_on != feedback_on::own, "error_feedback: ", policy_.name(),
                      " needs a codec that returns a rank's own part of the mean, got ", codec_.name(),
                      ": use mean_residual()");
    }
    if (verified_ && !policy.is_memoryless) {
      detail::require_contraction("error_feedback", codec_, dims, ", or write error_feedback(c, unverified)");
    }
    return local_states<In, E>{
        {pith::make_local<accum<In>>(exec, codec_, dims), pith::make_local<In>(exec, policy_, kept(dims))}};
  }

  template <class In>
  std::size_t payload_bytes(shape const& dims) const {
    return pith::payload_bytes<accum<In>>(codec_, dims);
  }
  template <class In>
  void visit_pieces(shape const& dims, detail::piece_visitor& visitor) const {
    detail::visit_pieces<accum<In>>(codec_, dims, visitor);
  }
  template <class In, executor E>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    auto const own = detail::scratch_bytes<accum<In>>(codec_, exec, dims);
    if constexpr (fuses<In, E>) {
      auto const from = detail::scratch_bytes_from<accum<In>, source_of<In, E>>(codec_, exec, dims);
      if (encodes_in_one_pass<In, E>(dims)) return std::max(from, detail::wide_bytes<In>(dims) + own);
    }
    return 2 * scratch_for<accum<In>>(dims.n) + own + detail::policy_scratch_bytes<In>(policy_, exec, dims);
  }

  template <real In, executor E>
    requires pith::codec<C, accum<In>, E>
  void encode_payload(context<In, E> const& cx, values_on<E, In const> g, span_on<E, std::byte> payload,
                      auto const& replicated, auto& local) const {
    if constexpr (fuses<In, E>) {
      if (encodes_in_one_pass<In, E>(cx.dims)) {
        auto const from = policy_.template source<In, E>(g, policy_part(local));
        return detail::encode_from<accum<In>>(codec_, wide(cx), from, payload, codec_part(replicated),
                                              codec_part(local));
      }
    }
    if constexpr (!always_fuses<In, E>) encode_in_passes<In>(cx, g, payload, replicated, local);
  }
  template <real In, executor E>
    requires pith::codec<C, accum<In>, E>
  void decode_payload(context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                      auto const& replicated) const {
    auto const y = detail::widened<In, E>(x, cx.ws);
    detail::decode_payload<accum<In>>(codec_, wide(cx), payload, y, codec_part(replicated));
    detail::narrow<In>(cx.exec, y, x);
  }

  bool changes_mean() const { return detail::feedback_traits_of(policy_).changes_mean || codec_.changes_mean(); }
  unsigned rounds(shape const& dims, unsigned ranks) const { return codec_.rounds(dims, ranks); }
  template <class In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const {
    return detail::transfer_of<accum<In>>(codec_, r, dims, ranks);
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned ranks) const {
    if constexpr (fuses<In, E>) {
      auto const from = detail::scratch_bytes_from<accum<In>, source_of<In, E>>(codec_, exec, dims);
      auto const rest = detail::exchange_scratch_bytes<accum<In>>(codec_, exec, dims, ranks);
      if (is_fused(way_of<In, E>(dims))) return std::max(from, detail::wide_bytes<In>(dims) + rest);
    }
    auto const tensors = detail::reports_delivered<C, accum<In>, E> ? 3u : 2u;
    return tensors * scratch_for<accum<In>>(dims.n) +
           detail::exchange_scratch_bytes<accum<In>>(codec_, exec, dims, ranks) +
           detail::contribution_scratch_bytes<accum<In>>(codec_, dims) +
           detail::policy_scratch_bytes<In>(policy_, exec, dims);
  }

  template <real In, executor E>
    requires detail::exchangeable<C, accum<In>, E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> g, span_on<E, std::byte> out,
               auto const& replicated, auto& local) const {
    auto const way = way_of<In, E>(cx.dims);
    if constexpr (has_source_rounds<In, E>) {
      auto const from = policy_.template source<In, E>(g, policy_part(local));
      if (way == feedback_way::in_rounds)
        return codec_.produce_from(wide(cx), round, from, out, codec_part(replicated));
    } else if constexpr (fuses<In, E>) {
      if (way == feedback_way::one_pass) return produce_in_one_pass<In>(cx, round, g, out, replicated, local);
    }
    if constexpr (!always_one_pass<In, E>) produce_in_passes<In>(cx, way, round, g, out, replicated, local);
  }
  template <real In, executor E>
    requires detail::exchangeable<C, accum<In>, E>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x, auto& replicated,
              auto& local) const {
    if (round + 1 < rounds(cx.dims, cx.ranks)) {
      auto const none = values_on<E, accum<In>>();
      detail::absorb<accum<In>>(codec_, wide(cx), round, in, none, codec_part(replicated), codec_part(local));
      return;
    }
    auto const way = way_of<In, E>(cx.dims);
    if constexpr (has_source_rounds<In, E>) {
      auto const to = detail::feedback_sink<F, In, E>{
          policy_.template source<In, E>(x, policy_part(local)), {x.data, 1}, cx.common};
      if (way == feedback_way::in_rounds) return codec_.absorb_to(wide(cx), in, to, codec_part(replicated));
    }
    absorb_last<In>(cx, way, round, in, x, replicated, local);
  }

 private:
  error_feedback(C codec, F policy, bool verified)
      : base(std::move(codec)), policy_(std::move(policy)), verified_(verified) {
    detail::explain_policy<F>();
  }
  friend base;

  error_feedback with(C codec) const { return error_feedback(std::move(codec), policy_, verified_); }

  /// Throws std::invalid_argument if the policy needs the mean of the whole tensor.
  void require_own_feedback(auto& replicated) const {
    auto const needs_mean = detail::feedback_traits_of(policy_).updates_on == feedback_on::mean;
    detail::require(!needs_mean && detail::state_bytes(replicated) == 0, "error_feedback: ", policy_.name(),
                    " needs the mean of the whole tensor, which a rank does not receive, got ", codec_.name(),
                    ": use residual() or own_residual()");
  }
  /// Encodes without fusion: first `compensate`, then the codec, then `update`.
  template <class In, class E>
  void encode_in_passes(context<In, E> const& cx, values_on<E, In const> g, span_on<E, std::byte> payload,
                        auto const& replicated, auto& local) const {
    auto const p = compensated<In>(cx, g, local);
    detail::encode_payload<accum<In>>(codec_, wide(cx), p, payload, codec_part(replicated), codec_part(local));
    if (is_lossless(cx.dims)) return;
    if (codec_.is_lossless(cx.dims)) return policy_.update(cx, p, p, policy_part(local));
    auto const sent = cx.ws.template take<accum<In>>(cx.dims.n);
    detail::decode_payload<accum<In>>(codec_, wide(cx), payload, sent, codec_part(replicated));
    policy_.update(cx, p, values_on<E, accum<In> const>(sent), policy_part(local));
  }
  template <class In, class E>
  void produce_in_one_pass(context<In, E> const& cx, [[maybe_unused]] unsigned round, values_on<E, In const> g,
                           span_on<E, std::byte> out, auto const& replicated, auto& local) const {
    if constexpr (traits_of<C>.scatters) {
      auto const from = policy_.template source<In, E>(g, policy_part(local));
      codec_.produce_from(wide(cx), round, from, out, codec_part(replicated), codec_part(local));
    } else {
      encode_payload<In>(cx, g, out, replicated, local);
    }
  }
  /// Produces the buffer of a round without fusion.
  template <class In, class E>
  void produce_in_passes(context<In, E> const& cx, [[maybe_unused]] feedback_way way, unsigned round,
                         values_on<E, In const> g, span_on<E, std::byte> out, auto const& replicated,
                         auto& local) const {
    auto const last = detail::contributing_round(codec_, cx.dims, cx.ranks);
    auto const p = round > last ? values_on<E, accum<In> const>() : compensated<In>(cx, g, local);
    detail::produce<accum<In>>(codec_, wide(cx), round, p, out, codec_part(replicated), codec_part(local));
    if constexpr (detail::reports_contribution<C, accum<In>, E>) {
      if (way != feedback_way::own_share || round != last) return;
      if (codec_.is_lossless(cx.dims)) return policy_.update(cx, p, p, policy_part(local));
      auto const sent = cx.ws.template take<accum<In>>(cx.dims.n);
      detail::contribution<accum<In>>(codec_, wide(cx), out, sent, codec_part(replicated));
      policy_.update(cx, p, values_on<E, accum<In> const>(sent), policy_part(local));
    }
  }
  /// Runs the last round, unless the way is in_rounds: first `absorb`, then `update`, then `after_exchange`.
  template <class In, class E>
  void absorb_last(context<In, E> const& cx, feedback_way way, unsigned round, received_on<E> in, values_on<E, In> x,
                   auto& replicated, auto& local) const {
    auto const mean = way == feedback_way::after_mean ? cx.ws.template take<accum<In>>(cx.dims.n)  // x is still g
                                                      : detail::widened<In, E>(x, cx.ws);
    if constexpr (traits_of<C>.scatters && !std::same_as<In, accum<In>>)  // nothing remains unsent of other shards
      cx.exec.fill(mean.data, std::byte{}, value_bytes<accum<In>>(cx.dims.n));
    detail::absorb<accum<In>>(codec_, wide(cx), round, in, mean, codec_part(replicated), codec_part(local));
    if (way == feedback_way::unchanged) return detail::narrow<In>(cx.exec, mean, x);
    if constexpr (!always_one_pass<In, E>) {
      if (way == feedback_way::after_mean) update_after<In>(cx, x, mean, replicated, local);
    }
    if constexpr (detail::has_after_exchange<F, In, E>) {
      policy_.after_exchange(cx, mean, policy_part(replicated), policy_part(local));
    }
    deliver<In>(cx, mean, x, local);
  }
  /// Converts the mean to In. The policy keeps the part that In cannot hold. If only one rank receives an element, this
  /// rank keeps the parts of all ranks.
  template <class In, class E>
  void deliver(context<In, E> const& cx, values_on<E, accum<In>> mean, values_on<E, In> x, auto& local) const {
    if constexpr (detail::adds_unsent<F, In, E>) {
      cx.exec.for_each_index(cx.dims.n, detail::narrow_keeping<In>{mean.data, x.data, cx.common});
      if constexpr (traits_of<C>.scatters) detail::rescale<accum<In>>(cx.exec, mean, cx.ranks);
      policy_.add_unsent(cx, mean, policy_part(local));
    } else {
      detail::narrow<In>(cx.exec, mean, x);
    }
  }

  /// Updates the policy's state when the mean is known.
  template <class In, class E>
  void update_after(context<In, E> const& cx, values_on<E, In> g, values_on<E, accum<In>> mean, auto const& replicated,
                    auto& local) const {
    auto const p = compensated<In>(cx, values_on<E, In const>(g), local);
    auto const sent = codec_.is_lossless(cx.dims) ? p : received<In, E>(cx, p, mean, replicated, local);
    policy_.update(cx, p, sent, policy_part(local));
  }
  /// Returns the values that `update` receives after the exchange. If the codec can compute the part of p that reached
  /// the mean (`delivered`), and the policy does not require the mean, returns this part of p. Otherwise returns the
  /// mean.
  template <class In, class E>
  values_on<E, accum<In> const> received(context<In, E> const& cx, [[maybe_unused]] values_on<E, accum<In> const> p,
                                         values_on<E, accum<In>> mean, [[maybe_unused]] auto const& replicated,
                                         [[maybe_unused]] auto& local) const {
    if constexpr (detail::reports_delivered<C, accum<In>, E>) {
      if (detail::feedback_traits_of(policy_).updates_on == feedback_on::mean) return mean;
      auto const sent = cx.ws.template take<accum<In>>(cx.dims.n);
      codec_.delivered(wide(cx), p, values_on<E, accum<In> const>(mean), sent, codec_part(replicated),
                       codec_part(local));
      return sent;
    } else {
      return mean;
    }
  }

  template <class In, class E>
  using replicated_states =
      detail::states<detail::replicated_part, replicated_of<C, accum<In>, E>, replicated_of<F, In, E>>;
  template <class In, class E>
  using local_states = detail::states<detail::local_part, local_of<C, accum<In>, E>, local_of<F, In, E>>;

  template <class In, class E>
  using source_of = typename detail::feedback_source<F, In, E>::type;
  template <class In, class E>
  static constexpr bool fuses = detail::fuses_feedback<C, F, In, E>;
  template <class In, class E>
  static constexpr bool has_source_rounds = detail::exchanges_feedback<C, F, In, E>;
  /// True if the codec encodes p in one pass for every shape. The code for several passes is then not compiled.
  template <class In, class E>
  static constexpr bool always_fuses = fuses<In, E> && detail::always_has_source<F> && detail::always_encodes_from<C, E>;
  /// True if the codec also has no rounds of its own, so that an exchange encodes p in one pass for every shape.
  template <class In, class E>
  static constexpr bool always_one_pass = always_fuses<In, E> && !collective<C, accum<In>, E>;

  template <class In, class E>
  bool encodes_in_one_pass([[maybe_unused]] shape const& dims) const {
    if constexpr (always_fuses<In, E>) {
      return true;
    } else if constexpr (fuses<In, E>) {
      return policy_.has_source() && !is_lossless(dims) && detail::sums(codec_) == sum_form::none &&
             codec_.template can_encode_from<E>(dims);
    } else {
      return false;
    }
  }

  /// How an exchange of a tensor runs.
  template <class In, class E>
  feedback_way way_of(shape const& dims) const {
    if constexpr (always_one_pass<In, E>) return feedback_way::one_pass;
    if (is_lossless(dims)) return feedback_way::unchanged;
    auto const from_source = encodes_in_one_pass<In, E>(dims);
    auto const to = detail::feedback_traits_of(policy_).updates_on;
    auto const takes_share =
        !detail::reports_delivered<C, accum<In>, E> &&
        (to == feedback_on::own || (to == feedback_on::first_known && detail::has_contribution<C, accum<In>, E>));
    if (has_source_rounds<In, E> && from_source && !takes_share && !codec_.is_lossless(dims))
      return feedback_way::in_rounds;
    if ((!collective<C, accum<In>, E> || traits_of<C>.scatters) && from_source) return feedback_way::one_pass;
    return takes_share ? feedback_way::own_share : feedback_way::after_mean;
  }
  static constexpr bool is_fused(feedback_way way) {
    return way == feedback_way::one_pass || way == feedback_way::in_rounds;
  }

  /// The context for C, which encodes values of type accum<In>.
  template <class In, class E>
  static context<accum<In>, E> wide(context<In, E> const& cx) {
    return cx.template of<accum<In>>();
  }

  static auto& policy_part(auto& states) { return std::get<1>(states.each); }

  /// The shape of the policy's state. The state has no elements if the codec is lossless.
  shape kept(shape const& dims) const { return is_lossless(dims) ? shape{} : dims; }

  /// True if the codec can return a rank's own share, before or after the exchange.
  template <class In, class E>
  static constexpr bool reports_own_part =
      detail::reports_contribution<C, accum<In>, E> || detail::reports_delivered<C, accum<In>, E>;

  template <class In, class E>
  values_on<E, accum<In> const> compensated(context<In, E> const& cx, values_on<E, In const> g, auto& local) const {
    if constexpr (std::same_as<In, accum<In>>) {
      if (is_lossless(cx.dims)) return g;
    }
    auto const p = cx.ws.template take<accum<In>>(cx.dims.n);
    if (is_lossless(cx.dims)) {
      cx.exec.for_each_index(cx.dims.n, detail::convert<accum<In>, In>{g.data, p.data});
    } else {
      policy_.compensate(cx, g, p, policy_part(local));
    }
    return p;
  }

  [[no_unique_address]] F policy_;
  bool verified_;
};

/// The short form of error_feedback, as in texts: ef(codec), ef(codec, policy), ef(codec, unverified).
template <class C, class... Arguments>
auto ef(C codec, Arguments... arguments) {
  return error_feedback(std::move(codec), std::move(arguments)...);
}

}}  // namespace pith::PITH_ABI
