// tests/compile_fail/facets.cpp — members that do not fit the facets of their codec.
#include <pith/codec/explain.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/control/warm_up.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/own_residual.hpp>
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

}  // namespace sample

int main() {
  using namespace sample;

  pith::make_state<float>(pith::seq, adding(), pith::vector(8));
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
#elif defined(UNDECLARED_MEMBER_OF_A_POLICY)
  // expected-error {{pith: a feedback policy with the member residual_in must declare its facet: using facets = pith::ext::facets<pith::ext::kept_residual>}}
  auto const codec = pith::error_feedback(pith::top_k(0.1), undeclared_policy());
#elif defined(MISSPELT_MEMBER_OF_A_POLICY)
  // expected-error {{pith: the facet ext::after_mean needs: template <real In, executor E> void after_exchange(}}
  auto const codec = pith::error_feedback(pith::top_k(0.1), misspelt_policy());
#elif defined(UNDECLARED_MEMBER_OF_A_CONTROLLER)
  // expected-error {{pith: a controller with the member measures must declare its facet: using facets = pith::ext::facets<pith::ext::energies>}}
  pith::explain_controller<undeclared_controller>();
#endif
}
