// tests/docs/executor_table.cpp — prints the table of docs/executors.md: codecs, executors and element types.
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/registry/policies.hpp>
#include <pith/registry/stages.hpp>
#include <pith/vector_quantize/hypersphere_quantizer.hpp>
#include <pith/vector_quantize/product_quantizer.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string_view>

namespace {

/// An executor on a device, as far as a codec is compiled against one.
struct device : pith::archetype {
  using space = pith::device_space;
};

template <class C, class E>
constexpr bool serves_all_types = pith::codec<C, float, E>&& pith::codec<C, double, E>&& pith::codec<C, pith::half, E>&&
    pith::codec<C, pith::bfloat16, E>;

/// The stages whose sums are not exact in double, so that contraction changes them.
constexpr std::string_view rounding_forms[] = {"terngrad",     "qsgd<Bits>", "summed_terngrad",
                                               "trits(stage)", "eden<Bits>", "damped(stage)"};

bool rounds(std::string_view form) { return std::ranges::find(rounding_forms, form) != std::end(rounding_forms); }

/// All policies make equal bytes around a codec that does.
template <class... F>
constexpr bool are_reproducible = (pith::reproducible<F> && ...);
static_assert(
    are_reproducible<pith::ef_sign, pith::ef21, pith::loco, pith::mean_residual, pith::momentum_correction,
                     pith::no_feedback, pith::own_residual, pith::residual<pith::bfloat16>, pith::signum_momentum>);

template <class C>
void print_row(std::string_view name, bool rounds_in_double = false) {
  static_assert(serves_all_types<C, pith::seq_executor> && serves_all_types<C, pith::par_executor<pith::thread_pool>> &&
                serves_all_types<C, device>);
  auto const* const anywhere = !pith::reproducible<C> ? "own" : rounds_in_double ? "equal; double: own" : "equal";
  std::printf("| `%.*s` | equal | %s | %s |\n", static_cast<int>(name.size()), name.data(), anywhere, anywhere);
}

void print_stage(pith::listing const& method) {
  auto const text = pith::syntax::reader::read(method.texts[0]);
  pith::detail::with_stage(text.only(),
                           [&]<class C>(C const&) { return print_row<C>(method.form, rounds(method.form)), true; });
}

}  // namespace

int main() {
  using pith::error_feedback;
  std::puts("| codec | `par` | `on(policy)` | `on(stream)` |");
  std::puts("|---|---|---|---|");
  for (auto const& method : pith::stage_listings) print_stage(method);
  print_row<decltype(pith::hadamard() | pith::qsgd<8>())>("hadamard \\| qsgd<Bits>", true);
  print_row<pith::product_quantizer<8>>("product_quantizer<Bits>");
  print_row<pith::hypersphere_quantizer<8>>("hypersphere_quantizer<Bits>");
  print_row<error_feedback<pith::scaled_sign>>("error_feedback(scaled_sign)");
  print_row<error_feedback<pith::scaled_sign, pith::momentum_correction>>("error_feedback(scaled_sign, any policy)");
  print_row<error_feedback<pith::power_sgd>>("error_feedback(power_sgd)");
  print_row<error_feedback<decltype(pith::random_k(0.5) | pith::qsgd<8>())>>("error_feedback(random_k \\| qsgd<8>)",
                                                                             true);
  print_row<error_feedback<decltype(pith::top_k(0.5) | pith::qsgd<8>())>>("error_feedback(top_k \\| qsgd<8>)", true);
}
