// tests/determinism/payload_digest.cpp — digests of what codecs make and controllers remember, equal with every compiler,
// flag and processor. An argument chooses the instructions: baseline, avx2 or avx512. If they are missing it returns 77.
//
//   cast<half>                           cf0b2d6a351857a6
//   stochastic_cast<bfloat16>            8f15edc6967604a6
//   scaled_sign                          ac415317e1161626
//   scaled_sign(1000)                    4c2728a8538e7ce6
//   eight_bit                            437e41ce5a371d66
//   eight_bit(128,floor)                 a853c26fb8594ca6
//   block_int<8>                         13459c8cac3098e6
//   block_int<3>(40000)                  52f0480c8db188e6
//   block_int<2>(32,clip)                4f3ab7e6ecc9f566
//   mxfp8                                835e594880a05ca6
//   mxfp6                                aeb2cc9f76672966
//   mxfp4                                50256d1b6ae0d7e6
//   mxint8                               0824eed6f1fed166
//   nvfp4                                7fc0015c73da0e06
//   two_magnitudes                       2b47f6ee2b2399a6
//   eden<4>                              4f7c9a517a46d626
//   qsgd<8>                              0d111681715f91a8
//   qsgd<4>(5,24)                        1e20f8a15609c4cf
//   qsgd<3>(3,40000,max)                 b6c375ff02c72548
//   sign                                 e68ccd0fc704a506
//   one_bit                              7ae113a0eb32c826
//   one_bit(column)                      c02bd31bdbff1e66
//   terngrad                             d26d028241b5c5e0
//   natural<8>                           d4d4a13d6afc8eba
//   ef(scaled_sign)                      713b680435c089a1
//   ef(qsgd<8>)                          12addfd7ca3fb402
//   hadamard|qsgd<8>                     43deb04a7cee7d21
//   hadamard|scaled_sign                 99f2c1b8c92f27d3
//   top_k(0.01)                          60884196a53afa86
//   top_k(0.01,packed_indices)           ab86b672a9739e26
//   chunk_top_k(5,300)                   babf2fe81b5b2826
//   threshold(1.5,0.25)                  92f36ec855f5aec6
//   redsync(0.02)                        1950aca0391095e6
//   redsync_mean(0.02)                   e3a70be4b6990361
//   sidco(0.02,exponential,3)            391c226aec0984e6
//   sidco(0.02,gamma)                    65ec3e48bf9e51e6
//   gaussian_k(0.02)                     fe5b8de3d8730d26
//   random_k(0.1)                        4a0293fa9fde4e26
//   random_k(0.25,unbiased)              f6be71fe5b76dc26
//   random_k(0.1,none,own)               677f982857c428e6
//   random_blocks(0.1,24)                35b6d45578615966
//   random_blocks(0.25,64,unbiased)      2ecd0897633aaf26
//   random_k(0.5)|qsgd<4>                4699401793680816
//   ef(top_k(0.01)|qsgd<8>)              84c8ac36bf03af58
//   product_quantizer<5>(6,859afd2539382d71) 6df2ea8f8667d566
//   hypersphere_quantizer<6>(6,859afd2539382d71) a8df7d5f24520a13
//   trits(terngrad)                      1398f2d6ddc6a67e
//   inceptionn(reference)                9a1828ee595c47e5
//   adaptive_threshold(0.1)              46160504309f41e5
//   sketch_ml<6>                         58548d53d1c58a25
//   ef(scaled_sign,residual<bfloat16>)
//     a92fa73ed99e6b0b
//   ef(scaled_sign,ef_sign(0.1))
//     1533870a30953ac0
//   ef(scaled_sign,mean_residual(0.9,0.5))
//     f01e849c5c434d09
//   ef(scaled_sign,signum_momentum(0.9))
//     2f92d59b97068f1b
//   ef(scaled_sign,momentum_correction(0.9,unmasked))
//     b2b5dc72b96ff767
//   ef(scaled_sign,momentum_correction(0.9,nesterov,clip_norm(1)))
//     91d1d17ff8f04cb3
//   ef(scaled_sign,ef21(0.1))
//     5d09a5ed55815797
//   ef(scaled_sign,two_sided(scaled_sign(1000)))
//     4107627ab91b961a
//   ef(scaled_sign,clamped_residual(0.5))
//     8dec5884a394a26e
//   summed_sign
//     7a3e9fb8dfa131e5
//   summed_terngrad
//     3cf1e88b45806847
//   power_sgd(3)
//     ae389f438e125bb4
//   one_sided_power_sgd(3)
//     c21709d7a7a595c7
//   gravac(10..1000,0.7)
//     0bae471cb6ee3b00
//   accordion(0.01,0.001,0.2)
//     f2628fb2cca53d68
#include <pith/comparison/adaptive_threshold.hpp>
#include <pith/comparison/inceptionn.hpp>
#include <pith/comparison/sketch_ml.hpp>
#include <pith/control/accordion.hpp>
#include <pith/control/gravac.hpp>
#include <pith/core/digest.hpp>
#include <pith/exec/seq.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/quantize/summed_terngrad.hpp>
#include <pith/quantize/trits.hpp>

#include <cinttypes>
#include <cstdio>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "support/codecs.hpp"
#include "support/exchanged.hpp"
#include "support/policies.hpp"

namespace {

/// Integers of 24 bits times powers of two: exact, and far apart.
template <class In>
std::vector<In> input(std::uint64_t n) {
  auto random = std::mt19937_64(41);
  auto x = std::vector<In>(n);
  for (auto& v : x) {
    auto const word = random();
    v = pith::element_cast<In>(std::ldexp(static_cast<double>(word >> 40) - 0x1p23, -24 - static_cast<int>(word % 12)));
  }
  return x;
}

void add_bytes(pith::digest& digest, std::vector<std::byte> const& bytes) {
  for (auto const b : bytes) digest << std::to_integer<std::uint64_t>(b);
}

template <class In, class C>
void add_payloads(pith::digest& digest, pith::seq_executor exec, C const& codec, pith::shape dims) {
  auto run = support::execution<In, pith::seq_executor, C>(exec, codec, dims, input<In>(dims.n));
  for (int step = 0; step < 2; ++step) {
    run.step();
    add_bytes(digest, run.bytes());
  }
}

/// Prints the digest of payloads, of float and of `More`.
template <class... More, class C>
void print_payloads(pith::seq_executor exec, C const& codec) {
  static_assert(pith::reproducible<C>);
  auto digest = pith::digest();
  for (std::uint64_t const n : {1u, 7u, 513u, 10'007u}) add_payloads<float>(digest, exec, codec, {n});
  (add_payloads<More>(digest, exec, codec, {10'007}), ...);
  std::printf("%-36s %016" PRIx64 "\n", codec.name().c_str(), digest.value());
}

template <class In, class C>
void add_means(pith::digest& digest, pith::seq_executor exec, C const& codec, pith::shape dims) {
  add_bytes(digest, support::exchanged<In>(exec, codec, dims, [&](unsigned) { return input<In>(dims.n); }));
}

/// Prints the digest of received means and of states, of float and of `More`.
template <class... More, class C>
void print_means(pith::seq_executor exec, C const& codec, std::initializer_list<pith::shape> sizes) {
  auto digest = pith::digest();
  for (auto const& dims : sizes) add_means<float>(digest, exec, codec, dims);
  (add_means<More>(digest, exec, codec, sizes.end()[-1]), ...);
  std::printf("%s\n  %016" PRIx64 "\n", codec.name().c_str(), digest.value());
}

/// Of what a controller remembers after each of two hundred steps, by which it decides.
template <pith::rate_controller R>
void print_controller(R controller) {
  auto random = std::mt19937_64(43);
  auto digest = pith::digest();
  for (std::uint64_t step = 0; step < 200; ++step) {
    auto const energy = support::uniform(random);
    auto seen = std::vector<pith::rate_report>();
    for (auto const rate : pith::detail::rates_to_measure(controller, step, 0))
      seen.push_back({0, rate, energy, energy * (3 + support::uniform(random)) / 4, 0});
    controller.observe({step, 0, support::uniform(random), {seen.data(), seen.size()}, {&energy, 1}});
    add_bytes(digest, controller.save());
  }
  std::printf("%s\n  %016" PRIx64 "\n", controller.name().c_str(), digest.value());
}

pith::isa level_of(std::string_view name) {
  for (auto const level : {pith::isa::baseline, pith::isa::avx2, pith::isa::avx512}) {
    if (name == pith::isa_name(level)) return level;
  }
  throw std::invalid_argument("payload_digest: the instructions must be baseline, avx2 or avx512");
}

void print_all(pith::seq_executor exec) {
  using pith::bfloat16;
  auto const payloads = [exec](auto const& codec, pith::shape) { print_payloads<bfloat16>(exec, codec); };
  support::with_reproducible_codecs(1, payloads);
  print_payloads<bfloat16>(exec, pith::trits(pith::terngrad()));
  print_payloads(exec, pith::inceptionn());
  print_payloads(exec, pith::adaptive_threshold(0.1));
  print_payloads(exec, pith::sketch_ml<6>());

  auto const vectors = {pith::shape{1}, pith::shape{513}, pith::shape{10'007}};
  auto const matrices = {pith::shape{700 * 61, 700}, pith::shape{40 * 250, 40}};
  support::with_policies([&](auto const& codec) { print_means<bfloat16>(exec, codec, vectors); });
  print_means<bfloat16>(exec, pith::summed_sign(), vectors);
  print_means<bfloat16>(exec, pith::summed_terngrad(), vectors);
  print_means<bfloat16, double>(exec, pith::power_sgd(3), matrices);
  print_means<bfloat16, double>(exec, pith::one_sided_power_sgd(3), matrices);
  print_controller(pith::gravac({.window = 20}));
  print_controller(pith::accordion(pith::accordion_options::each_step()));
}

}  // namespace

int main(int argc, char** argv) {
  auto const level = argc > 1 ? level_of(argv[1]) : pith::best_isa();
  if (level > pith::best_isa()) return 77;
  print_all(pith::seq_executor(level));
}
