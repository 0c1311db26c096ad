// tests/docs/executor_table.cpp — prints the table of docs/executors.md: codecs, executors and element types.
#include <pith/codec/chain.hpp>
#include <pith/coding/trits.hpp>
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/no_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/signum_momentum.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/eight_bit.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/quantize/summed_terngrad.hpp>
#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/random_blocks.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/redsync_mean.hpp>
#include <pith/sparsify/sidco.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>
#include <pith/transform/hadamard.hpp>
#include <pith/vector/hypersphere_quantizer.hpp>

#include <cstdio>
#include <string>

namespace {

/// An executor on a device, as far as a codec is compiled against one.
struct device : pith::archetype {
  using space = pith::device_space;
};

template <class C, class E>
constexpr bool serves_all_types = pith::codec<C, float, E>&& pith::codec<C, double, E>&& pith::codec<C, pith::half, E>&&
    pith::codec<C, pith::bfloat16, E>;

/// What a codec's own header says in words, and no concept does.
struct remarks {
  bool rounds_in_double = false;  ///< its sums are not exact in double, so that contraction changes them
};

/// All policies make equal bytes around a codec that does.
template <class... F>
constexpr bool are_reproducible = (pith::reproducible<F> && ...);
static_assert(are_reproducible<pith::ef_sign, pith::ef21, pith::mean_residual, pith::momentum_correction,
                               pith::no_feedback, pith::own_residual, pith::signum_momentum>);

template <class C>
void print_row(char const* name, remarks about = {}) {
  static_assert(serves_all_types<C, pith::seq_executor> && serves_all_types<C, pith::par_executor<pith::thread_pool>> &&
                serves_all_types<C, device>);
  auto const anywhere = !pith::reproducible<C> ? "own" : about.rounds_in_double ? "equal; double: own" : "equal";
  std::printf("| `%s` | equal | %s | %s |\n", name, anywhere, anywhere);
}

}  // namespace

int main() {
  using pith::error_feedback;
  std::puts("| codec | `par` | `on(policy)` | `on(stream)` |");
  std::puts("|---|---|---|---|");
  print_row<pith::cast<pith::half>>("cast<half>, cast<bfloat16>");
  print_row<pith::scaled_sign>("scaled_sign");
  print_row<pith::one_bit<pith::axis::column>>("one_bit");
  print_row<pith::summed_sign>("sign, summed_sign");
  print_row<pith::summed_terngrad>("terngrad, summed_terngrad", {.rounds_in_double = true});
  print_row<pith::trits<pith::terngrad<>>>("trits(terngrad)", {.rounds_in_double = true});
  print_row<pith::natural<>>("natural<Bits>");
  print_row<pith::eight_bit>("eight_bit");
  print_row<pith::qsgd<8>>("qsgd<Bits>", {.rounds_in_double = true});
  print_row<pith::top_k<>>("top_k");
  print_row<pith::threshold<>>("threshold");
  print_row<pith::redsync>("redsync");
  print_row<pith::redsync_mean>("redsync_mean");
  print_row<pith::sidco<>>("sidco");
  print_row<pith::gaussian_k>("gaussian_k");
  print_row<pith::random_k<>>("random_k");
  print_row<pith::random_blocks<>>("random_blocks");
  print_row<decltype(pith::hadamard() | pith::qsgd<8>())>("hadamard \\| qsgd<Bits>", {.rounds_in_double = true});
  print_row<pith::product_quantizer<8>>("product_quantizer<Bits>");
  print_row<pith::hypersphere_quantizer<8>>("hypersphere_quantizer<Bits>");
  print_row<pith::power_sgd>("power_sgd");
  print_row<pith::one_sided_power_sgd>("one_sided_power_sgd");
  print_row<error_feedback<pith::scaled_sign>>("error_feedback(scaled_sign)");
  print_row<error_feedback<pith::scaled_sign, pith::momentum_correction>>("error_feedback(scaled_sign, any policy)");
  print_row<error_feedback<pith::power_sgd>>("error_feedback(power_sgd)");
  print_row<error_feedback<decltype(pith::random_k(0.5) | pith::qsgd<8>())>>("error_feedback(random_k \\| qsgd<8>)",
                                                                             {.rounds_in_double = true});
  print_row<error_feedback<decltype(pith::top_k(0.5) | pith::qsgd<8>())>>("error_feedback(top_k \\| qsgd<8>)",
                                                                          {.rounds_in_double = true});
}
