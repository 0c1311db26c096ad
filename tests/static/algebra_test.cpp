// tests/static/algebra_test.cpp — the survey's methods as models of pith's concepts: if this builds, they fit.
#include "models/collectives.hpp"
#include "models/controllers.hpp"
#include "models/policies.hpp"
#include "models/quantizers.hpp"
#include "models/sparsifiers.hpp"
#include "models/user.hpp"

#include <pith/collective/g_top_k.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/ok_top_k.hpp>
#include <pith/control/warm_up.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/no_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/signum_momentum.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/random_blocks.hpp>
#include <pith/sparsify/redsync_mean.hpp>
#include <pith/sparsify/sidco.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <type_traits>
#include <vector>

namespace {

using namespace models;
using exec = pith::archetype;

/// A row of the table: what a method is, and, left out, what it is not.
struct row {
  bool sum = false, unbiased = false, projection = false, contractive = false, absolute = false, variable = false,
       rate = false, collective = false;

  friend constexpr bool operator==(row const&, row const&) = default;
};

template <class C>
constexpr row row_of = {.sum = pith::traits_of<C>.is_summable(),
                        .unbiased = pith::promises_of<C>.unbiased,
                        .projection = pith::traits_of<C>.projection,
                        .contractive = pith::promises_of<C>.contractive,
                        .absolute = pith::promises_of<C>.absolute,
                        .variable = pith::traits_of<C>.is_variable(),
                        .rate = pith::detail::rate_adjustable<C>,
                        .collective = pith::collective<C, float, exec>};

template <class... S>
constexpr bool stages = (pith::stage<S, float, exec> && ...);
template <class... C>
constexpr bool exchangeable = (pith::detail::exchangeable<C, float, exec> && ...);

/// What `a | b | c` is.
template <class... S>
using pipe = decltype((... | std::declval<S>()));
/// What `a | (b | c)` is.
template <class... S>
using pipe_from_right = decltype((std::declval<S>() | ...));

template <class C>
using ef = decltype(pith::error_feedback(std::declval<C>()));
template <class C, class F>
using ef_by = decltype(pith::error_feedback(std::declval<C>(), std::declval<F>()));
template <class C>
using unverified_ef = decltype(pith::error_feedback(std::declval<C>(), pith::unverified));
template <class C, class F>
using unverified_ef_by = decltype(pith::error_feedback(std::declval<C>(), std::declval<F>(), pith::unverified));

template <class... C>
constexpr bool codecs = ((pith::codec<C, float, exec> && pith::codec<C, pith::half, exec>)&&...);

using unbiased_random_k = pith::random_k<pith::scaling::unbiased>;
using own_random_k = pith::random_k<pith::scaling::none, pith::drawing::own>;
using unclipped = pith::terngrad<pith::outliers::unclipped>;

// A word of pith::options selects a template argument.
namespace words = pith::options;
static_assert(std::same_as<decltype(pith::random_k(0.1)), pith::random_k<>>);
static_assert(std::same_as<decltype(pith::random_k(0.1, words::unbiased)), unbiased_random_k>);
static_assert(std::same_as<decltype(pith::random_k(0.1, words::none, words::own)), own_random_k>);
static_assert(
    std::same_as<decltype(pith::random_blocks(0.1, 8, words::unbiased)), pith::random_blocks<pith::scaling::unbiased>>);
static_assert(std::same_as<decltype(pith::one_bit(words::row)), pith::one_bit<pith::axis::row>>);
static_assert(std::same_as<decltype(pith::one_bit(8)), pith::one_bit<>>);
static_assert(std::same_as<decltype(pith::threshold(1, 1, words::dense)), pith::threshold<pith::overflow::dense>>);
static_assert(std::same_as<decltype(pith::sidco(0.1, words::gamma)), pith::sidco<pith::magnitudes::gamma>>);
static_assert(std::same_as<decltype(pith::terngrad(words::unclipped)), unclipped>);
static_assert(std::same_as<decltype(pith::terngrad(2.5, 8)), pith::terngrad<>>);

// ---- the table, row by row -------------------------------------------------------------------------------

// Dense and casts.
static_assert(stages<pith::identity, pith::cast<pith::half>, pith::cast<pith::bfloat16>>);
static_assert(row_of<pith::identity> ==
              row{.sum = true, .unbiased = true, .projection = true, .contractive = true, .absolute = true});
static_assert(row_of<pith::cast<pith::half>> == row{.sum = true, .contractive = true});

// Top-k.
static_assert(stages<pith::top_k<>>);
static_assert(row_of<pith::top_k<>> == row{.projection = true, .contractive = true, .rate = true});

// Random-k: of a shared seed, unscaled and scaled, and of each rank's own.
static_assert(stages<pith::random_k<>, unbiased_random_k, own_random_k>);
static_assert(row_of<pith::random_k<>> == row{.sum = true, .projection = true, .contractive = true, .rate = true});
static_assert(row_of<unbiased_random_k> == row{.sum = true, .unbiased = true, .rate = true});
static_assert(row_of<own_random_k> == row{.projection = true, .contractive = true, .rate = true});

// Hard threshold: its error is bounded, its gain is not.
static_assert(stages<hard_threshold>);
static_assert(row_of<hard_threshold> == row{.projection = true, .absolute = true, .variable = true, .rate = true});

// DGC: a threshold that promises nothing, and feedback of its own.
static_assert(stages<sampled_threshold>);
static_assert(row_of<sampled_threshold> == row{.projection = true, .variable = true, .rate = true});
using momentum = pith::momentum_correction;
static_assert(pith::feedback<momentum, float, exec> && pith::feedback<momentum, pith::half, exec>);
static_assert(!pith::detail::has_after_exchange<momentum, float, exec>);
static_assert(codecs<unverified_ef_by<sampled_threshold, momentum>, ef_by<pith::top_k<>, momentum>>);

// RedSync: by search, trimmed, and quantised.
static_assert(stages<pith::redsync, trimmed_top_k, pith::redsync_mean>);
static_assert(row_of<pith::redsync> == row{.projection = true, .contractive = true, .variable = true, .rate = true});
static_assert(row_of<trimmed_top_k> == row{.projection = true, .contractive = true, .rate = true});
static_assert(row_of<pith::redsync_mean> == row_of<pith::redsync>);
static_assert(codecs<ef<pith::redsync_mean>, ef_by<pith::redsync, momentum>>);

// SIDCo and Gaussian-k: a stage count is local.
static_assert(stages<pith::sidco<>, pith::gaussian_k>);
static_assert(row_of<pith::sidco<>> == row_of<pith::redsync> && row_of<pith::sidco<>> == row_of<pith::gaussian_k>);
static_assert(!pith::detail::stateless<pith::local_of<pith::sidco<>, float, exec>>);
static_assert(pith::detail::stateless<pith::replicated_of<pith::sidco<>, float, exec>>);
static_assert(codecs<ef<pith::sidco<>>, ef<pith::gaussian_k>>);

// Ok-Topk and gTop-k: exchanges.
static_assert(row_of<pith::ok_top_k> == row{.contractive = true, .rate = true, .collective = true});
static_assert(pith::codec<pith::ok_top_k, float, exec> && !pith::stage<pith::ok_top_k, float, exec>);
static_assert(pith::detail::reports_delivered<pith::ok_top_k, float, exec> &&
              !pith::detail::reports_contribution<pith::ok_top_k, float, exec>);
static_assert(codecs<ef_by<pith::ok_top_k, pith::own_residual>, ef_by<pith::ok_top_k, momentum>>);
static_assert(row_of<pith::g_top_k> == row_of<pith::ok_top_k> &&
              pith::detail::reports_delivered<pith::g_top_k, float, exec>);
static_assert(codecs<ef_by<pith::g_top_k, pith::own_residual>, ef_by<pith::g_top_k, momentum>>);

// Two levels: a rank's own payload inside its node is available at once.
using two_levels = pith::hierarchical<pith::top_k<>, ef<pith::scaled_sign>>;
static_assert(row_of<two_levels> == row{.contractive = true, .collective = true});
static_assert(pith::codec<two_levels, float, exec> && !pith::stage<two_levels, float, exec>);
static_assert(pith::detail::has_contribution<two_levels, float, exec>);
static_assert(codecs<ef<two_levels>, pith::hierarchical<pith::identity, two_levels>>);

// PowerSGD: two sums; another rank is another start.
static_assert(stages<pith::power_sgd>);
static_assert(row_of<pith::power_sgd> == row{.contractive = true, .collective = true});
static_assert(!pith::detail::has_contribution<pith::power_sgd, float, exec>);
static_assert(stages<pith::one_sided_power_sgd>);
static_assert(row_of<pith::one_sided_power_sgd> == row_of<pith::power_sgd>);
static_assert(pith::detail::reports_contribution<pith::one_sided_power_sgd, float, exec>);

// GradiVeQ: an agreed basis; affine, and summable.
static_assert(stages<gradiveq>);
static_assert(row_of<gradiveq> == row{.sum = true} && gradiveq::traits.sums == pith::sum_form::decode);
static_assert(!pith::detail::stateless<pith::replicated_of<gradiveq, float, exec>>);
static_assert(!pith::detail::stateless<pith::local_of<gradiveq, float, exec>>);

// QSGD, gathered and with a shared scale. Bits are a type, so that another rate is another codec.
static_assert(stages<pith::qsgd<8>> && !stages<shared_scale<8>>);
static_assert(row_of<pith::qsgd<8>> == row{.unbiased = true});
static_assert(row_of<shared_scale<8>> == row{.unbiased = true, .collective = true});
static_assert(pith::detail::has_contribution<shared_scale<8>, float, exec>);

// CGX: two numbers per bucket, with nearest and random rounding.
static_assert(stages<max_min<4>, stochastic_max_min<4>>);
static_assert(row_of<max_min<4>> == row{.contractive = true} && row_of<stochastic_max_min<4>> == row{.unbiased = true});
static_assert(pith::quantizer_rule<max_min_rule<4, true>, float> &&
              pith::quantizer_rule<max_min_rule<4, true>, double>);

// TernGrad, gathered and with a shared scale.
static_assert(stages<pith::terngrad<>, unclipped, pith::summed_terngrad>);
static_assert(row_of<pith::terngrad<>> == row{} && row_of<unclipped> == row{.unbiased = true});
static_assert(row_of<pith::summed_terngrad> == row{.collective = true});
static_assert(pith::detail::has_contribution<pith::summed_terngrad, float, exec>);

// Natural compression.
static_assert(stages<pith::natural<8>, pith::natural<9>> && row_of<pith::natural<9>> == row{.unbiased = true});
static_assert(std::same_as<pith::output_of<pith::natural<9>, float>, pith::packed<9>>);

// signSGD: votes are gathered or summed, and promise nothing.
static_assert(stages<pith::sign, pith::summed_sign> && row_of<pith::sign> == row{});
static_assert(row_of<pith::summed_sign> == row{.collective = true});

// Scaled sign and 1-bit SGD: one scale per bucket, and two.
static_assert(stages<pith::scaled_sign, pith::one_bit<>, pith::one_bit<pith::axis::column>>);
static_assert(row_of<pith::scaled_sign> == row{.projection = true, .contractive = true});
static_assert(row_of<pith::one_bit<>> == row_of<pith::scaled_sign>);
static_assert(row_of<pith::one_bit<pith::axis::column>> == row_of<pith::scaled_sign>);

// DeepReduce: an index coder of a superset (P0), and a coder of values.
static_assert(pith::detail::index_coder<pith::packed_indices> && !pith::detail::index_coder<int>);
static_assert(row_of<bloom_superset> == row{.projection = true, .contractive = true, .variable = true, .rate = true});
static_assert(stages<bloom_superset, polynomial, pipe<pith::top_k<>, polynomial>>);

// Accordion, GraVAC, L-GreCo.
static_assert(pith::rate_controller<accordion> && pith::rate_controller<gravac> && pith::rate_controller<l_greco>);
static_assert(pith::rate_controller<pith::warm_up>);
static_assert(!pith::rate_controller<restless> && !pith::rate_controller<pith::top_k<>>);

// EF21: an estimate that all agree on.
using pith::ef21;
static_assert(pith::feedback<ef21, float, exec> && !pith::feedback<impatient, float, exec> &&
              !pith::feedback<int, float, exec>);
static_assert(pith::detail::has_after_exchange<ef21, float, exec>);
static_assert(!pith::detail::stateless<pith::replicated_of<ef21, float, exec>>);
static_assert(codecs<ef_by<pith::top_k<>, ef21>>);

// Two-sided feedback, and residuals against a rank's own payload or against the mean.
static_assert(codecs<ef_by<pith::top_k<>, pith::two_sided<pith::scaled_sign>>,
                     ef_by<pith::power_sgd, pith::own_residual>, ef_by<pith::top_k<>, pith::mean_residual>>);
static_assert(pith::detail::reports_contribution<pith::power_sgd, float, exec> &&
              !pith::detail::reports_contribution<pith::g_top_k, float, exec>);

// Memoryless policies take any codec, and have no excess to keep.
static_assert(pith::detail::memoryless<pith::signum_momentum> && pith::detail::memoryless<pith::no_feedback> &&
              !pith::detail::memoryless<ef21> && !pith::detail::memoryless<momentum> &&
              !pith::detail::memoryless<pith::residual<>>);
static_assert(codecs<ef_by<clip, pith::signum_momentum>, ef_by<sampled_threshold, pith::no_feedback>>);
static_assert(pith::traits_of<ef<pith::threshold<>>>.rates == pith::rate_form::fed_back &&
              pith::traits_of<ef_by<pith::threshold<>, pith::no_feedback>>.rates == pith::rate_form::bounded);

// A user's own.
static_assert(stages<clip, fixed_point>);
static_assert(row_of<clip> == row{} && row_of<fixed_point> == row{.absolute = true});
static_assert(pith::quantizer_rule<fixed_point_rule, float> && !pith::quantizer_rule<clip, float>);

// ---- composition -----------------------------------------------------------------------------------------

// The output type of a chain.
static_assert(std::same_as<pith::output_of<pipe<pith::top_k<>, pith::qsgd<4>>, float>, pith::packed<4>>);
static_assert(std::same_as<pith::output_of<pipe<pith::random_k<>, pith::cast<pith::half>>, float>, pith::half>);
static_assert(std::same_as<pith::output_of<pipe<pith::power_sgd, pith::cast<pith::half>>, pith::half>, pith::half>);
static_assert(std::same_as<pith::output_of<pipe<hadamard, pith::top_k<>>, double>, double>);

// One type, however it is bracketed.
static_assert(std::same_as<pipe<hadamard, pith::top_k<>, pith::qsgd<4>>,
                           pipe_from_right<hadamard, pith::top_k<>, pith::qsgd<4>>>);
static_assert(
    std::same_as<pipe<hadamard, pith::top_k<>, pith::qsgd<4>>, pith::chain<hadamard, pith::top_k<>, pith::qsgd<4>>>);
static_assert(!std::same_as<pipe<hadamard, pith::top_k<>>, pipe<pith::top_k<>, hadamard>>);

// What fits, and what does not.
template <class... S>
constexpr bool fits = pith::detail::fits<float, exec, S...>;
static_assert(fits<clip, hadamard, pith::top_k<>, pith::natural<>> && fits<pith::top_k<>, pith::top_k<>, fixed_point>);
static_assert(fits<gradiveq, pith::qsgd<4>> && fits<pith::sidco<>, pith::scaled_sign>);
static_assert(!fits<pith::qsgd<4>, pith::top_k<>> && !fits<pith::natural<>, hadamard> &&
              !fits<pith::qsgd<8>, pith::qsgd<4>>);
static_assert(!fits<pith::cast<pith::half>, clip>, "clip takes float only");
static_assert(!fits<pith::top_k<>, ef<pith::top_k<>>> && !fits<ef<pith::top_k<>>, pith::qsgd<8>> &&
              !fits<pith::top_k<>, int>);
// A chain takes no more than its stages do.
static_assert(pith::detail::composable<pith::top_k<>, pipe<hadamard, pith::qsgd<4>>>);
static_assert(!pith::detail::composable<pith::qsgd<4>, pipe<hadamard, pith::cast<pith::half>>>);
static_assert(pith::stage<pipe<clip, pith::qsgd<8>>, float, exec> &&
              !pith::stage<pipe<clip, pith::qsgd<8>>, double, exec>);

// Sums: all stages or none; one decode form makes the chain's.
static_assert(pipe<pith::random_k<>, pith::identity>::traits.sums == pith::sum_form::encode);
static_assert(pipe<pith::random_k<>, pith::cast<pith::half>>::traits.sums == pith::sum_form::decode);
static_assert(pipe<pith::random_k<>, gradiveq, pith::cast<pith::half>>::traits.sums == pith::sum_form::decode);
static_assert(!pith::traits_of<pipe<pith::top_k<>, pith::cast<pith::half>>>.is_summable());
static_assert(!pith::traits_of<pipe<pith::random_k<>, pith::qsgd<8>>>.is_summable());
static_assert(pith::traits_of<pith::damped<unbiased_random_k>>.is_summable() &&
              !pith::traits_of<pith::damped<pith::qsgd<8>>>.is_summable());

// Unbiased after isometric decoders and rotations.
static_assert(pith::promises_of<pipe<hadamard, pith::qsgd<8>>>.unbiased &&
              pith::promises_of<pipe<unbiased_random_k, pith::natural<>>>.unbiased);
static_assert(!pith::promises_of<pipe<pith::top_k<>, pith::qsgd<8>>>.unbiased &&
              !pith::promises_of<pipe<hadamard, pith::scaled_sign>>.unbiased);

// Contractive after isometric projections and rotations; projections after isometric projections.
static_assert(pith::promises_of<pipe<pith::top_k<>, pith::qsgd<8>>>.contractive &&
              pith::promises_of<pipe<pith::top_k<>, max_min<4>>>.contractive);
static_assert(pith::promises_of<pipe<hadamard, pith::scaled_sign>>.contractive &&
              pith::promises_of<pith::damped<pith::natural<>>>.contractive);
static_assert(!pith::promises_of<pipe<pith::power_sgd, pith::qsgd<8>>>.contractive, "P Q^T is no isometry");
static_assert(!pith::promises_of<pipe<unbiased_random_k, pith::scaled_sign>>.contractive &&
              !pith::promises_of<pipe<clip, pith::top_k<>>>.contractive);
static_assert(!pith::traits_of<pipe<hadamard, pith::top_k<>>>.projection && !pith::traits_of<hadamard>.isometric &&
              pith::traits_of<pipe<pith::top_k<>, pith::scaled_sign>>.projection);
static_assert(!pith::traits_of<pipe<pith::top_k<>, pith::qsgd<8>>>.projection);

// Rates: one stage's, through whatever is around it.
static_assert(pith::detail::rate_adjustable<pipe<pith::top_k<>, pith::qsgd<8>>> &&
              pith::detail::rate_adjustable<ef<pipe<hadamard, pith::top_k<>>>>);
static_assert(pith::detail::rate_adjustable<pith::bypass<ef<pith::top_k<>>>> &&
              pith::detail::rate_adjustable<pith::damped<unbiased_random_k>>);
static_assert(!pith::detail::rate_adjustable<pipe<pith::top_k<>, pith::random_k<>>>, "which of the two?");
static_assert(!pith::detail::rate_adjustable<ef<pith::scaled_sign>>);

// Variable rate shows through.
static_assert(pith::traits_of<pipe<hard_threshold, pith::qsgd<8>>>.is_variable() &&
              pith::traits_of<ef<hard_threshold>>.is_variable());
static_assert(!pith::traits_of<pipe<pith::top_k<>, pith::qsgd<8>>>.is_variable() &&
              !pith::traits_of<ef<pith::top_k<>>>.is_variable());

// Reproducible if all are.
static_assert(pith::reproducible<pipe<pith::top_k<>, pith::qsgd<8>>> &&
              pith::reproducible<pipe<pith::power_sgd, pith::qsgd<8>>> &&
              !pith::reproducible<pipe<pith::top_k<>, clip>>);

// Feedback on all that promise to contract.
static_assert(
    codecs<ef<pith::identity>, ef<pith::cast<pith::half>>, ef<pith::top_k<>>, ef<pith::random_k<>>, ef<own_random_k>,
           ef<hard_threshold>, ef<pith::redsync>, ef<trimmed_top_k>, ef<pith::power_sgd>, ef<max_min<4>>,
           ef<stochastic_max_min<8>>, ef<pith::scaled_sign>, ef<pith::one_bit<>>, ef<bloom_superset>, ef<pith::qsgd<8>>,
           ef<pith::damped<pith::qsgd<2>>>, ef<pipe<hadamard, pith::top_k<>, pith::qsgd<8>>>>);
static_assert(codecs<pith::bypass<ef<pith::power_sgd>>, unverified_ef<clip>>);
static_assert(pith::traits_of<ef<pith::top_k<>>>.terminal && pith::traits_of<pith::bypass<pith::top_k<>>>.terminal &&
              !pith::traits_of<pith::top_k<>>.terminal);
// On an exchange that is no codec, too: then it is no codec either.
static_assert(exchangeable<ef<shared_scale<8>>> && !pith::codec<ef<shared_scale<8>>, float, exec>);

// Memory spaces do not mix.
static_assert(!std::is_convertible_v<pith::device_span<float>, pith::span<float>>);
static_assert(!std::is_convertible_v<pith::span<float>, pith::device_span<float>>);
static_assert(std::is_convertible_v<std::vector<float>&, pith::span<float>>);
static_assert(!std::is_convertible_v<std::vector<float>&, pith::device_span<float>>);

// Communicators: what serves an exchange.
static_assert(pith::communicator<pith::self_communicator, exec> && !pith::communicator<gathers_only, exec>);

// ---- numbers ---------------------------------------------------------------------------------------------

/// What remains of x when codec c has encoded and decoded it in one step.
template <class C>
std::vector<float> through(C const& c, std::vector<float> x) {
  auto const dims = shape{x.size()};
  auto state = pith::make_state<float>(pith::seq, c, dims);
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, c, dims));
  auto ws = pith::workspace<>(scratch);
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(c, dims));
  pith::compress(pith::seq, c, x, payload, state, ws);
  pith::decompress(pith::seq, c, payload, x, state, ws);
  return x;
}

/// A state, and a group of one that exchanges with it step after step.
template <class C>
class alone {
 public:
  alone(C codec, std::uint64_t n)
      : codec_(codec),
        state_(pith::make_state<float>(pith::seq, codec_, {n})),
        scratch_(pith::workspace_bytes<float>(pith::seq, codec_, {n}, 1)) {}

  std::vector<float> step(std::vector<float> gradient) {
    auto comm = pith::self_communicator();
    auto ws = pith::workspace<>(scratch_);
    pith::all_reduce_mean(pith::seq, comm, codec_, pith::span<float>(gradient), state_, ws);
    return gradient;
  }

 private:
  C codec_;
  pith::codec_state<float, C, pith::seq_executor> state_;
  std::vector<std::byte> scratch_;
};

}  // namespace

TEST_CASE("omega multiplies and delta multiplies") {
  auto const n = shape{1024};
  auto const k = shape{256};
  auto const quantize = pith::qsgd<8>();
  auto const select = pith::top_k(0.25);
  auto const scaled = unbiased_random_k(0.25);
  CHECK((scaled | quantize).omega(n) == doctest::Approx((1 + 3) * (1 + quantize.omega(k)) - 1));
  CHECK((select | quantize).delta(n) == doctest::Approx(0.25 * (1 - quantize.omega(k))));
  CHECK((select | pith::cast<pith::half>()).delta(n) == doctest::Approx(0.25 * (1 - 0x1p-22)));
  CHECK((select | select).delta(n) == doctest::Approx(0.0625));
  CHECK((hadamard() | quantize).omega(n) == doctest::Approx(quantize.omega(n)));
  CHECK(pith::damped(quantize).delta(n) == doctest::Approx(1 / (1 + quantize.omega(n))));
  CHECK(quantize.omega(n) <= 128 / (4.0 * 127 * 127) * (1 + 0x1p-13));
}

TEST_CASE("a call of at() changes the one adjustable rate of a chain inside feedback and bypass") {
  auto const codec = pith::error_feedback(pith::top_k(0.5) | pith::qsgd<8>());
  CHECK(codec.at(0.25).name() == pith::error_feedback(pith::top_k(0.25) | pith::qsgd<8>()).name());
  CHECK(pith::bypass(codec, 8).at(0.25).name() == pith::bypass(codec.at(0.25), 8).name());
}

TEST_CASE("a feedback that cannot contract is refused when its state is made") {
  auto const loose = pith::error_feedback(pith::top_k(0.25) | pith::qsgd<2>());
  CHECK_THROWS_AS(pith::make_state<float>(pith::seq, loose, {1024}), std::invalid_argument);
  CHECK_NOTHROW(pith::make_state<float>(pith::seq, pith::error_feedback(pith::damped(pith::qsgd<2>())), {1024}));
}

TEST_CASE("a variable-rate stage counts its emitted elements at any position in a chain") {
  auto const x = std::vector<float>{0, 3, -1, -4, 0.5f, 2, 0, 0};
  CHECK(through(hard_threshold(1), x) == std::vector<float>{0, 3, 0, -4, 0, 2, 0, 0});
  CHECK(through(hard_threshold(1, 2), x) == std::vector<float>{0, 3, 0, -4, 0, 0, 0, 0});
  CHECK(through(pith::identity() | hard_threshold(1) | pith::identity(), x) == through(hard_threshold(1), x));
  CHECK(through(hard_threshold(1) | hard_threshold(2.5), x) == through(hard_threshold(2.5), x));

  auto const c = hard_threshold(1) | hard_threshold(2.5);
  auto state = pith::make_state<float>(pith::seq, c, {8});
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, c, {8}));
  auto ws = pith::workspace<>(scratch);
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(c, {8}));
  pith::compress(pith::seq, c, x, payload, state, ws);
  auto const side = pith::span<std::byte const>(payload).subspan(8 * sizeof(float));
  CHECK(*pith::side_as<std::uint32_t>(side) == 3);
  CHECK(*pith::side_as<std::uint32_t>(side.subspan(c.count_offset<float>({8}))) == 2);
}

TEST_CASE("an engine's scale may be two numbers") {
  CHECK(through(max_min<2>(), {-1, 0.4f, 0.6f, 2}) == std::vector<float>{-1, 0, 1, 2});
  CHECK(through(max_min<4>(8), std::vector<float>(9, 5)) == std::vector<float>(9, 5));
  CHECK(through(pith::one_bit(), {-1, -3, 2, 4}) == std::vector<float>{-2, -2, 3, 3});
  CHECK(through(pith::one_bit(8), {1, 2, 3, 4, 5, 6, 7, 8, -6}) ==
        std::vector<float>{4.5f, 4.5f, 4.5f, 4.5f, 4.5f, 4.5f, 4.5f, 4.5f, -6});
}

TEST_CASE("a user's stage and rule") {
  CHECK(through(clip(1) | fixed_point(0.25f), {0.3f, -7, 0.5f}) == std::vector<float>{0.25f, -1, 0.5f});
}

TEST_CASE("an affine decoder sums in the decode form") {
  auto const c = first_of_two();
  auto const inputs = std::vector<std::vector<float>>{{3, 1}, {7, 2}};
  auto none = pith::no_state();
  auto scratch = std::vector<std::byte>(1024);
  auto ws = pith::workspace<>(scratch);
  auto const of_two = pith::context<float, pith::seq_executor>{pith::seq, {}, {2}, ws, 2};
  auto sum = 0.0f;
  for (auto const& x : inputs) {
    auto z = 0.0f;
    pith::detail::produce<float>(c, of_two, 0, {x.data(), 2}, {reinterpret_cast<std::byte*>(&z), 4}, none, none);
    sum += z;
  }
  auto mean = std::vector<float>(2);
  auto in = pith::span<std::byte const>(reinterpret_cast<std::byte*>(&sum), 4);
  pith::detail::absorb<float>(c, of_two, 0, {in}, {mean.data(), 2}, none, none);
  CHECK(mean == std::vector<float>{5, 5});
}

TEST_CASE("feedback commits once, after the last of two rounds") {
  auto const n = std::size_t{24};
  auto plain = std::vector<float>(n), total = std::vector<float>(n);
  auto rank = alone(pith::error_feedback(shared_scale<4>()), n);
  auto record = double{0};
  for (int t = 0; t < 50; ++t) {
    auto g = std::vector<float>(n);
    for (std::size_t i = 0; i < n; ++i) g[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(t) * 5) % 11) - 5;
    auto const sent = rank.step(g);
    for (std::size_t i = 0; i < n; ++i) {
      plain[i] += g[i];
      total[i] += sent[i];
      record = std::max(record, std::abs(static_cast<double>(plain[i] - total[i])));
    }
  }
  CHECK(record > 0);
  CHECK(record < 0.84);  // a residual is below a unit u = max|p| / 7 <= (5 + u) / 7
}

TEST_CASE("ef21 around a lossless codec returns the gradients unchanged") {
  auto rank = alone(pith::error_feedback(pith::identity(), ef21()), 2);
  CHECK(rank.step({1, 3}) == std::vector<float>{1, 3});
  CHECK(rank.step({2, 3}) == std::vector<float>{2, 3});
}

TEST_CASE("a controller decides again as it did when it is loaded") {
  auto first = accordion{};
  auto report = pith::rate_report{.tensor = 0, .energy = 4};
  auto seen = pith::step_report{.step = 1, .tensors = {&report, 1}};
  first.observe(seen);
  first.observe(seen);
  auto second = accordion{};
  second.load(first.save());
  CHECK(first.decide(2, 0) == 0.01);
  CHECK(second.decide(2, 0) == 0.01);
  report.energy = 7;
  second.observe(seen);
  CHECK(second.decide(3, 0) == 0.1);
}
