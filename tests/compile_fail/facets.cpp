// tests/compile_fail/facets.cpp — members that do not fit the facets of their codec.
#include <pith/codec/explain.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/control/warm_up.hpp>
#include <pith/exec/par.hpp>
#include <pith/feedback/any_feedback.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/pith.hpp>

namespace sample {

using pith::accum;
using pith::context;
using pith::encoded_on;
using pith::executor;
using pith::gathered_on;
using pith::real;
using pith::values_on;
namespace ext = pith::ext;

/// A stage that copies its values.
struct copying : pith::codec_base {
  template <class In>
  using output = In;

  std::string name() const { return "copying"; }
  template <real In, executor E>
  void encode(context<In, E> const&, values_on<E, In const>, encoded_on<E, In>) const {}
  template <real In, executor E>
  void decode(context<In, E> const&, encoded_on<E, In const>, values_on<E, In>) const {}
};

/// Right: the facet and its member.
struct adding : copying {
  using facets = ext::facets<ext::ranks>;
  template <real In, executor E>
  void decode_ranks(context<In, E> const&, gathered_on<E, In>, accum<In>, values_on<E, In>) const {}
};

struct undeclared : copying {
  template <real In, executor E>
  void decode_ranks(context<In, E> const&, gathered_on<E, In>, accum<In>, values_on<E, In>) const {}
};
struct misspelt : copying {
  using facets = ext::facets<ext::ranks>;
  template <real In, executor E>
  void decode_rank(context<In, E> const&, gathered_on<E, In>, accum<In>, values_on<E, In>) const {}
};
struct swapped : copying {
  using facets = ext::facets<ext::ranks>;
  template <real In, executor E>
  void decode_ranks(context<In, E> const&, accum<In>, gathered_on<E, In>, values_on<E, In>) const {}
};
struct mutable_sum : copying {
  using facets = ext::facets<ext::ranks>;
  template <real In, executor E>
  void decode_ranks(context<In, E> const&, gathered_on<E, In>, accum<In>, values_on<E, In>) {}
};
/// A codec that is not a stage, with the member of a stage.
struct whole_payload : pith::codec_base {
  using facets = ext::facets<ext::ranks>;
  template <class In>
  using output = In;

  std::string name() const { return "whole_payload"; }
  template <class In>
  std::size_t payload_bytes(pith::shape const&) const {
    return 0;
  }
  template <real In, executor E>
  void encode_payload(context<In, E> const&, values_on<E, In const>, pith::span_on<E, std::byte>, auto const&,
                      auto&) const {}
  template <real In, executor E>
  void decode_payload(context<In, E> const&, pith::span_on<E, std::byte const>, values_on<E, In>, auto const&) const {}
  template <real In, executor E>
  void decode_ranks(context<In, E> const&, gathered_on<E, In>, accum<In>, values_on<E, In>) const {}
};
struct returning : copying {
  using facets = ext::facets<ext::source>;
  template <real In, executor E, class Source>
  bool encode_from(context<In, E> const&, Source const&, encoded_on<E, In>) const {
    return true;
  }
};
struct whole_delta : copying {
  using facets = ext::facets<ext::contractive>;
  float delta(pith::shape const&) const { return 1; }
};
struct without_shape : copying {
  double omega() const { return 0; }
};
struct half_of_entries : copying {
  using facets = ext::facets<ext::entries>;
  std::uint64_t max_entries(pith::shape const& dims) const { return dims.n; }
};
struct other_type : copying {
  using facets = ext::facets<ext::rate>;
  copying at(double) const { return {}; }
};
struct number_of_parts : copying {
  using facets = ext::facets<ext::parts>;
  int granule() const { return 8; }
};

/// A collective of one round, a sum of floats.
struct summing : copying {
  using facets = ext::facets<ext::rounds>;
  template <class In>
  pith::transfer round(unsigned, pith::shape const& dims, unsigned) const {
    return {pith::transport::all_reduce_sum, pith::kind_of<In>(), dims.n};
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const&, pith::shape const&, unsigned) const {
    return 0;
  }
  template <real In, executor E>
  void produce(context<In, E> const&, unsigned, values_on<E, In const>, pith::span_on<E, std::byte>, auto const&,
               auto&) const {}
  template <real In, executor E>
  void absorb(context<In, E> const&, unsigned, pith::received_on<E>, values_on<E, In>, auto&, auto&) const {}
};
struct swapped_rounds : summing {
  template <real In, executor E>
  void absorb(context<In, E> const&, pith::received_on<E>, unsigned, values_on<E, In>, auto&, auto&) const {}
};
struct undeclared_rounds : copying {
  template <class In>
  pith::transfer round(unsigned, pith::shape const& dims, unsigned) const {
    return {pith::transport::all_reduce_sum, pith::kind_of<In>(), dims.n};
  }
};
/// Right: the first stage of a chain has a member of a tile transform's name.
struct tiled : pith::top_k<> {
  using top_k::top_k;
  using facets = ext::facets<ext::contractive, ext::no<ext::rate>>;
  static std::uint32_t tile() { return 8; }
};
/// A collective of several rounds must not return another rank's share.
struct misspelt_share : summing {
  using facets = ext::facets<ext::rounds, ext::early_share>;
  unsigned contributing_rounds(unsigned) const { return 0; }
};
struct measuring_alone : copying {
  using facets = ext::facets<ext::measured>;
  template <real In, executor E, class Source>
  void encode_measured(context<In, E> const&, Source const&, pith::rate_list const&, pith::span_on<E, std::byte>,
                       double*) const {}
};
struct state_of_no_type : copying {
  template <executor E>
  pith::no_state make_local(E const&, pith::shape const&) const {
    return {};
  }
};
struct right_final final : copying {};
struct final_class final : copying {
  template <real In, executor E>
  void decode_ranks(context<In, E> const&, gathered_on<E, In>, accum<In>, values_on<E, In>) const {}
};

/// A rule of symbols without a scale.
struct plain_rule {
  static constexpr int bits = 2;
  static constexpr bool draws = false;

  template <class A>
  PITH_HD std::uint32_t code(A x, pith::unscaled<A>, std::uint16_t) const {
    return x < 0;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, pith::unscaled<A>) const {
    return static_cast<A>(symbol);
  }
};
struct undeclared_rule : plain_rule {
  double refine(double scale) const { return scale; }
};
struct undeclared_terms : plain_rule {
  template <class F>
  PITH_HD void with_terms(F const& f) const {
    f(*this);
  }
};
struct misspelt_rule : plain_rule {
  using facets = ext::facets<ext::refined>;
  template <class A>
  PITH_HD A refined(pith::unscaled<A>) const {
    return 1;
  }
};

struct undeclared_controller : pith::warm_up {
  using warm_up::warm_up;
  pith::rate_list measures(std::uint64_t, std::uint32_t) const { return {0.5}; }
};

struct undeclared_policy : pith::ef21 {
  auto& residual_in(auto& mine) const { return mine.estimate; }
};
struct misspelt_policy : pith::own_residual {
  using facets = ext::extended<pith::own_residual::facets, ext::after_mean>;
  void after_exchanges(auto const&, auto, auto&, auto&) const {}
};
struct always_fused : pith::ef21 {
  using facets = ext::extended<pith::ef21::facets, ext::fused>;
  template <real In, executor E>
  auto source(values_on<E, In const> g, auto&) const {
    return ext::plain_source<In>{g.data};
  }
};

struct undeclared_unit : pith::residual<> {
  double unit() const { return 2; }
};
struct updates_by_member : pith::residual<> {
  static constexpr auto updates_on = pith::feedback_on::own;
};
struct other_scratch : pith::residual<> {
  using facets = ext::extended<pith::residual<>::facets, ext::scratch>;
  std::size_t scratch_bytes(pith::shape const&) const { return 8; }
};

struct runner {
  template <class F>
  void operator()(std::uint64_t count, F const& f) {
    for (std::uint64_t i = 0; i < count; ++i) f(i);
  }
  unsigned threads() { return 1; }
};

struct private_thread_check : pith::self_communicator {
 private:
  void require_thread_support() const {}
};

}  // namespace sample

int main() {
  using namespace sample;

  pith::make_state<float>(pith::seq, adding(), pith::vector(8));
  pith::make_state<float>(pith::seq, summing(), pith::vector(8));
  pith::make_state<float>(pith::seq, right_final(), pith::vector(8));
  pith::make_state<float>(pith::seq, pith::error_feedback(tiled(0.1) | pith::cast<pith::half>()), pith::vector(8));
#if defined(UNDECLARED)
  // expected-error {{pith: a codec with the member decode_ranks must declare its facet: using facets = pith::ext::facets<pith::ext::ranks>; the member is: template <real In, executor E> void decode_ranks(context<In, E> const&, gathered_on<E, Out>, accum<In> factor, values_on<E, In>) const}}
  pith::make_state<float>(pith::seq, undeclared(), pith::vector(8));
#elif defined(MISSPELT)
  // expected-error {{pith: the facet ext::ranks needs: template <real In, executor E> void decode_ranks(}}
  pith::make_state<float>(pith::seq, misspelt(), pith::vector(8));
#elif defined(SWAPPED_ARGUMENTS)
  // expected-error {{pith: the facet ext::ranks needs: template <real In, executor E> void decode_ranks(}}
  auto const codec = pith::any_codec<float>(swapped());
#elif defined(NOT_CONST)
  // expected-error {{pith: the facet ext::ranks needs: template <real In, executor E> void decode_ranks(}}
  auto const codec = pith::error_feedback(mutable_sum(), pith::unverified);
#elif defined(NOT_A_STAGE)
  // expected-error {{in a codec that is not a stage, the second argument is received_on<E>, and the last one is replicated const&}}
  auto const codec = pith::any_codec<float>(whole_payload());
#elif defined(RETURNS_A_VALUE)
  // expected-error {{pith: the facet ext::source needs: template <real In, executor E, class Source> void encode_from(}}
  auto const codec = returning() | pith::qsgd<8>();
#elif defined(RETURNS_FLOAT)
  // expected-error {{pith: the facet ext::contractive needs: double delta(shape const&) const}}
  auto const codec = pith::top_k(0.1) | whole_delta();
#elif defined(WITHOUT_SHAPE)
  // expected-error {{pith: a codec with the member omega must declare its facet: using facets = pith::ext::facets<pith::ext::unbiased>}}
  pith::make_state<float>(pith::seq, without_shape(), pith::vector(8));
#elif defined(MISSING_MEMBER)
  // expected-error {{pith: the facet ext::entries needs: template <real In, executor E> void decode_entries(}}
  pith::make_state<float>(pith::seq, half_of_entries(), pith::vector(8));
#elif defined(RATE_OF_ANOTHER_TYPE)
  // expected-error {{pith: the facet ext::rate needs: C at(double rate) const}}
  pith::explain_facets<other_type>();
#elif defined(GRANULE_OF_ANOTHER_TYPE)
  // expected-error {{pith: the facet ext::parts needs: std::uint64_t granule() const}}
  auto const codec = pith::two_shot(number_of_parts());
#elif defined(UNDECLARED_MEMBER_OF_A_RULE)
  // expected-error {{pith: a rule with the member refine must declare its facet: using facets = pith::ext::facets<pith::ext::refined>}}
  auto const codec = pith::scalar_quantizer<undeclared_rule>(undeclared_rule());
#elif defined(MISSPELT_MEMBER_OF_A_RULE)
  // expected-error {{pith: the facet ext::refined needs: template <class A> PITH_HD Refined refine(Scale) const}}
  auto const codec = pith::scalar_quantizer<misspelt_rule>(misspelt_rule());
#elif defined(UNDECLARED_TERMS_OF_A_RULE)
  // expected-error {{pith: a rule with the member with_terms must declare its facet: using facets = pith::ext::facets<pith::ext::chosen_terms>}}
  auto const codec = pith::scalar_quantizer<undeclared_terms>(undeclared_terms());
#elif defined(MISSPELT_SHARE)
  // expected-error {{pith: the facet ext::early_share needs: unsigned contributing_round(unsigned ranks) const}}
  pith::make_state<float>(pith::seq, misspelt_share(), pith::vector(8));
#elif defined(MEASURED_WITHOUT_SCRATCH)
  // expected-error {{pith: the facet ext::measured needs: template <class In, executor E, class Source> std::size_t measured_scratch_bytes(}}
  pith::make_state<float>(pith::seq, measuring_alone(), pith::vector(8));
#elif defined(STATE_WITHOUT_TYPE)
  // expected-error {{pith: the member make_local of a codec must be: template <real In, executor E> State make_local(E const&, shape const&) const}}
  pith::make_state<float>(pith::seq, state_of_no_type(), pith::vector(8));
#elif defined(UNDECLARED_UNIT_OF_A_POLICY)
  // expected-error {{pith: a feedback policy with the member unit must declare its facet: using facets = pith::ext::facets<pith::ext::divided>}}
  auto const codec = pith::error_feedback(pith::top_k(0.1), undeclared_unit());
#elif defined(SCRATCH_OF_A_POLICY)
  // expected-error {{pith: the facet ext::scratch needs: template <real In, executor E> std::size_t scratch_bytes(E const&, shape const&) const}}
  auto const codec = pith::error_feedback(pith::top_k(0.1), other_scratch());
#elif defined(UPDATES_ON_AS_A_MEMBER)
  // expected-error {{pith: a feedback policy declares updates_on as a facet: pith::ext::updates_on<pith::feedback_on::own>}}
  auto const codec = pith::error_feedback(pith::top_k(0.1), updates_by_member());
#elif defined(IN_SECOND_HOP)
  // expected-error {{pith: the facet ext::ranks needs: template <real In, executor E> void decode_ranks(}}
  auto const codec = pith::two_shot(pith::qsgd<8>(), misspelt());
#elif defined(BETWEEN_NODES)
  // expected-error {{pith: the facet ext::ranks needs: template <real In, executor E> void decode_ranks(}}
  auto const codec = pith::hierarchical(pith::qsgd<8>(), misspelt(), 2);
#elif defined(THREADS_OF_A_RUNNER)
  // expected-error {{pith: the member threads of a runner must be: unsigned threads() const}}
  auto run = runner();
  auto const exec = pith::par(run);
#elif defined(UNDECLARED_MEMBER_OF_A_POLICY)
  // expected-error {{pith: a feedback policy with the member residual_in must declare its facet: using facets = pith::ext::facets<pith::ext::kept_residual>}}
  auto const codec = pith::error_feedback(pith::top_k(0.1), undeclared_policy());
#elif defined(MISSPELT_MEMBER_OF_A_POLICY)
  // expected-error {{pith: the facet ext::after_mean needs: template <real In, executor E> void after_exchange(}}
  auto const codec = pith::error_feedback(pith::top_k(0.1), misspelt_policy());
#elif defined(SWAPPED_ARGUMENTS_OF_A_ROUND)
  // expected-error {{pith: the facet ext::rounds needs: template <real In, executor E> void absorb(}}
  pith::make_state<float>(pith::seq, swapped_rounds(), pith::vector(8));
#elif defined(UNDECLARED_ROUNDS)
  // expected-error {{pith: a codec with the member round must declare its facet: using facets = pith::ext::facets<pith::ext::rounds>}}
  pith::make_state<float>(pith::seq, undeclared_rounds(), pith::vector(8));
#elif defined(FINAL_CLASS)
  // expected-error {{pith: a codec with the member decode_ranks must declare its facet}}
  pith::make_state<float>(pith::seq, final_class(), pith::vector(8));
#elif defined(IN_ANY_STAGE)
  // expected-error {{pith: the facet ext::ranks needs: template <real In, executor E> void decode_ranks(}}
  auto const stage = pith::any_stage<float, pith::seq_executor>(misspelt());
#elif defined(IN_ANY_FEEDBACK)
  // expected-error {{pith: the facet ext::after_mean needs: template <real In, executor E> void after_exchange(}}
  auto const policy = pith::any_feedback<float, pith::seq_executor>(misspelt_policy());
#elif defined(IN_TWO_SIDED)
  // expected-error {{pith: the facet ext::after_mean needs: template <real In, executor E> void after_exchange(}}
  auto const policy = pith::two_sided(pith::top_k(0.1), misspelt_policy());
#elif defined(SOURCE_ALONE)
  // expected-error {{pith: the facet ext::fused needs: template <real In, executor E> auto source(}}
  auto const codec = pith::error_feedback(pith::top_k(0.1), always_fused());
#elif defined(PRIVATE_THREAD_CHECK)
  // expected-error {{pith: require_thread_support of a communicator must be a public member: void require_thread_support() const}}
  pith::explain_communicator<private_thread_check, pith::seq_executor>();
#elif defined(UNDECLARED_MEMBER_OF_A_CONTROLLER)
  // expected-error {{pith: a controller with the member measures must declare its facet: using facets = pith::ext::facets<pith::ext::energies>}}
  pith::explain_controller<undeclared_controller>();
#endif
}
