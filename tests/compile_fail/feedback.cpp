// tests/compile_fail/feedback.cpp — feedback where it cannot work, and codecs that end a pipeline.
#include <pith/feedback/no_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/pith.hpp>

namespace sample {

/// Encodes and decodes, and promises nothing.
struct clip : pith::codec_base {
  template <class In>
  using output = In;

  std::string name() const { return "clip"; }
  template <pith::executor E>
  void encode(pith::context<float, E> const&, pith::values_on<E, float const>, pith::encoded_on<E, float>) const {}
  template <pith::executor E>
  void decode(pith::context<float, E> const&, pith::encoded_on<E, float const>, pith::values_on<E, float>) const {}
};

/// A policy that changes its state too early, once a round.
struct impatient : pith::residual<> {
  template <class In, pith::executor E>
  void compensate(pith::context<In, E> const&, pith::values_on<E, In const>, pith::values_on<E, pith::accum<In>>,
                  pith::residual<>::local<pith::accum<In>, E>&) const {}
};

/// Keeps to itself what a rank's own part is.
struct secretive : pith::power_sgd {
  using facets = pith::ext::facets<pith::ext::contractive, pith::ext::source, pith::ext::rounds,
                                   pith::ext::source_rounds, pith::ext::no<pith::ext::costly_share>>;

  using power_sgd::power_sgd;
  void own_contribution() const = delete;
};

}  // namespace sample

int main() {
  using namespace sample;

  [[maybe_unused]] auto const select = pith::top_k(0.01);
#if defined(NO_PROMISE)
  // expected-error {{pith: error_feedback(c) needs a c that promises to contract: one with delta, omega or error_bound}}
  auto const codec = pith::error_feedback(clip());
#elif defined(NO_POLICY)
  // expected-error {{pith: error_feedback(c, f) needs a feedback policy f: name, compensate}}
  pith::error_feedback(select, 42);
#elif defined(IMPATIENT_POLICY)
  // expected-error {{pith: error_feedback(c, f) needs a feedback policy f: name, compensate (which changes no state)}}
  pith::error_feedback(select, impatient());
#elif defined(NO_PROMISE_OF_THE_SERVER)
  // expected-error {{pith: two_sided(c) needs a c that promises to contract: one with delta, omega or error_bound}}
  pith::error_feedback(select, pith::two_sided(clip()));
#elif defined(FEEDBACK_OF_THE_SERVER)
  // expected-error {{pith: two_sided(c) needs a stage or a chain of them; it already adds feedback}}
  pith::error_feedback(select, pith::two_sided(pith::bypass(select, 1000)));
#elif defined(SECRETIVE)
  // expected-error {{pith: error_feedback(c, own_residual()) needs a c that returns a rank's own part of the mean}}
  pith::make_state<float>(pith::seq, pith::error_feedback(secretive(1), pith::own_residual()), {16, 4});
#elif defined(FACTORS_OF_THE_USUAL_RESIDUAL)
  // expected-error {{pith: residual<> has no factors: write residual(beta, gamma), without template arguments}}
  pith::residual<>(0.9, 0.5);
#elif defined(ENDED)
  // expected-error {{pith: this codec ends a pipeline: put it around the whole chain}}
  pith::error_feedback(select) | pith::qsgd<8>();
#elif defined(ENDED_BEHIND)
  // expected-error {{pith: this codec ends a pipeline: put it around the whole chain}}
  select | pith::error_feedback(pith::scaled_sign());
#elif defined(BYPASS_ENDS)
  // expected-error {{pith: this codec ends a pipeline: put it around the whole chain}}
  pith::bypass(select, 1000) | pith::qsgd<8>();
#elif defined(BYPASS_INSIDE)
  // expected-error {{pith: error_feedback(c) needs a stage or a chain of them: write bypass(error_feedback(c), n)}}
  pith::error_feedback(pith::bypass(select, 1000));
#elif defined(DAMPED_PROJECTION)
  // expected-error {{pith: damped(s) needs an unbiased stage s (one with omega(shape)); a contractive one needs no damping}}
  pith::damped(pith::top_k(0.1));
#else
  auto const whole = pith::bypass(pith::error_feedback(select | pith::damped(pith::qsgd<8>())), 1000);
  auto const all = pith::error_feedback(clip(), pith::residual(0.9), pith::unverified);
  auto const none = pith::error_feedback(clip(), pith::no_feedback());
  return whole.name().empty() || all.name().empty() || none.name().empty() ||
         pith::error_feedback(pith::qsgd<8>()).name().empty();
#endif
}
