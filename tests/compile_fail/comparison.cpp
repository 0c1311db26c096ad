// tests/compile_fail/comparison.cpp — methods that are kept for comparison, where they do not run.
#include <pith/codec/compress.hpp>
#include <pith/comparison/adaptive_threshold.hpp>
#include <pith/comparison/inceptionn.hpp>
#include <pith/comparison/sketch_ml.hpp>
#include <pith/exec/par.hpp>

template <class In, class C, class E>
void use(C const& codec, E const& exec) {
  auto state = pith::make_state<In>(exec, codec, {8});
  auto ws = pith::workspace<>(pith::span<std::byte>());
  pith::compress(exec, codec, pith::span<In const>(), pith::span<std::byte>(), state, ws);
  pith::decompress(exec, codec, pith::span<std::byte const>(), pith::span<In>(), state, ws);
}

void on_seq() {
  use<float>(pith::inceptionn(), pith::seq);
  use<float>(pith::adaptive_threshold(0.1), pith::seq);
  use<float>(pith::sketch_ml<6>(), pith::seq);
}

#if defined(DOUBLES)
// expected-error {{pith: a method of pith/comparison is kept for comparison and takes float}}
void doubles() { use<double>(pith::inceptionn(), pith::seq); }
#elif defined(THREADS)
// expected-error {{pith: a method of pith/comparison is kept for comparison and runs on seq}}
void threads() { use<float>(pith::sketch_ml<6>(), pith::par()); }
#elif defined(HALVES)
// expected-error {{pith: a method of pith/comparison is kept for comparison and takes float}}
void halves() { use<pith::half>(pith::adaptive_threshold(0.1), pith::seq); }
#elif defined(NINE_BITS)
// expected-error {{pith: sketch_ml<Bits> needs 1 <= Bits <= 8}}
void nine_bits() { use<float>(pith::sketch_ml<9>(), pith::seq); }
#endif
