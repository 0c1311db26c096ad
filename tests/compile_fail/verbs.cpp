// tests/compile_fail/verbs.cpp — elements, memory and communicators that the verbs cannot take.
#ifdef FAST_MATH
#define __FAST_MATH__ 1
#endif
#ifdef FINITE_MATH
#undef __FINITE_MATH_ONLY__
#define __FINITE_MATH_ONLY__ 1
#endif
#ifdef ASSOCIATIVE_MATH
#define __ASSOCIATIVE_MATH__ 1
#endif
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/exchange/mean_norm.hpp>
#include <pith/pith.hpp>

#include <vector>

namespace sample {

/// Gathers, and does not sum.
struct gathers_only {
  unsigned rank() const { return 0; }
  unsigned size() const { return 1; }
  template <pith::executor E>
  pith::completed all_gather(E const&, pith::span_on<E, std::byte const>, pith::span_on<E, std::byte>) {
    return {};
  }
};

}  // namespace sample

int main() {
  auto const codec = pith::top_k(0.1);
  auto const device = pith::device_span<float>();
  auto x = std::vector<float>(16);
  auto payload = std::vector<std::byte>(256);
  auto scratch = std::vector<std::byte>(device.size() + 4096);
  [[maybe_unused]] auto ws = pith::workspace(scratch);
  [[maybe_unused]] auto comm = pith::self_communicator();
  auto state = pith::make_state<float>(pith::seq, codec, {16});
#if defined(FAST_MATH)
  // expected-error {{pith: -ffast-math (also part of -Ofast) breaks NaN and equal means: compile this file with -fno-fast-math}}
#elif defined(FINITE_MATH)
  // expected-error {{pith: -ffast-math (also part of -Ofast) breaks NaN and equal means: compile this file with -fno-fast-math}}
#elif defined(ASSOCIATIVE_MATH)
  // expected-error {{pith: -ffast-math (also part of -Ofast) breaks NaN and equal means: compile this file with -fno-fast-math}}
#elif defined(INTEGERS)
  // expected-error {{pith: the elements of a gradient are float, double, half or bfloat16}}
  pith::make_state<int>(pith::seq, codec, {16});
#elif defined(NO_CODEC)
  // expected-error {{pith: make_state<In>(exec, c, shape) needs a codec c of In}}
  pith::make_state<float>(pith::seq, comm, {16});
#elif defined(COMPRESS_DEVICE_SPAN)
  // expected-error {{pith: this span lies in another memory space than the executor's: a device_span needs a device executor}}
  pith::compress(pith::seq, codec, device, payload, state, ws);
#elif defined(OTHER_ELEMENTS)
  // expected-error {{pith: the gradient has other elements than its state, or is const where it is written}}
  auto doubles = std::vector<double>(16);
  pith::compress(pith::seq, codec, doubles, payload, state, ws);
#elif defined(CONST_GRADIENT)
  // expected-error {{pith: the gradient has other elements than its state, or is const where it is written}}
  pith::decompress(pith::seq, codec, payload, pith::span<float const>(x), state, ws);
#elif defined(STATE_OF_ANOTHER_CODEC)
  // expected-error {{pith: the state was made for another codec or executor}}
  pith::all_reduce_mean(pith::seq, comm, pith::identity(), pith::span<float>(x), state, ws);
#elif defined(EXCHANGE_DEVICE_SPAN)
  // expected-error {{pith: this span lies in another memory space than the executor's}}
  pith::all_reduce_mean(pith::seq, comm, codec, device, state, ws);
#elif defined(DEVICE_SPAN_FOR_HOST_SPAN)
  // expected-error {{device_space}}
  pith::span<float> host = device;
#elif defined(NO_SUMS)
  // expected-error {{pith: this communicator lacks all_reduce}}
  auto gatherer = sample::gathers_only();
  pith::all_reduce_mean(pith::seq, gatherer, codec, pith::span<float>(x), state, ws);
#elif defined(NO_MEAN_NORM)
  // expected-error {{pith: this communicator lacks all_reduce(exec, span<double>, reduction), which a mean norm needs}}
  auto gathers = sample::gathers_only();
  pith::clip_to_mean_norm<float>(pith::seq, gathers, pith::span<float>(x), ws);
#elif defined(NO_SWAPS)
  // expected-error {{pith: pairwise<Comm> needs a Comm with send_recv}}
  auto pairs = pith::pairwise<sample::gathers_only>();
  pairs.all_gather(pith::seq, pith::span<std::byte const>(payload), pith::span<std::byte>(payload));
#elif defined(NO_PIECES)
  // expected-error {{pith: reproducible_sums<Comm> needs a Comm with all_to_all}}
  auto sums = pith::reproducible_sums<sample::gathers_only>();
  sums.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum);
#else
  pith::compress(pith::seq, codec, x, payload, state, ws);
  pith::decompress(pith::seq, codec, payload, x, state, ws);
  pith::all_reduce_mean(pith::seq, comm, codec, pith::span<float>(x), state, ws);
#endif
}
