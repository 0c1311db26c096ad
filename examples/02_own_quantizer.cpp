// examples/02_own_quantizer.cpp — a quantizer of your own is its mathematics: five small functions.
//
//   ef(top_k(0.25)|nearest4) makes 4096 bytes 456
//   relative error 0.529 in one step
//
// Buckets, packing, both directions, element types, composition and error feedback come from the library.
#include <pith/pith.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

/// Rounds to the nearest of 15 multiples of a bucket's largest magnitude / 7.
struct nearest4_rule {
  static constexpr int bits = 4;
  static constexpr bool draws = false;

  PITH_HD double measure(auto x) const { return x < 0 ? -static_cast<double>(x) : static_cast<double>(x); }
  PITH_HD double merge(double a, double b) const { return a > b || a != a ? a : b; }
  template <class A>
  PITH_HD A finish(double largest, std::uint64_t, A) const {
    return pith::finite_or_nan(static_cast<A>(largest / 7));
  }
  template <class A>
  PITH_HD std::uint32_t code(A x, A unit, std::uint16_t) const {
    auto const level = unit > 0 ? x / unit : A{0};
    return static_cast<std::uint32_t>(static_cast<int>(level < 0 ? level - A{0.5} : level + A{0.5})) & 15u;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A unit) const {
    return static_cast<A>(symbol < 8 ? static_cast<int>(symbol) : static_cast<int>(symbol) - 16) * unit;
  }
};

class nearest4 : public pith::scalar_quantizer<nearest4_rule> {
 public:
  nearest4() : scalar_quantizer({}, 128) {}

  std::string name() const { return "nearest4"; }
  /// No error exceeds its element, and the largest of a bucket has next to none.
  double delta(pith::shape const& dims) const {
    return 0.99 / static_cast<double>(std::max<std::uint64_t>(bucket_of(dims.n), 1));
  }
};
static_assert(pith::stage<nearest4, float, pith::seq_executor> && pith::contractive<nearest4>);

int main() {
  auto const codec = pith::error_feedback(pith::top_k(0.25) | nearest4());
  auto x = std::vector<float>(1024);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i));

  auto state = pith::make_state<float>(pith::seq, codec, {x.size()});
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, {x.size()}));
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {x.size()}));
  auto ws = pith::workspace(pith::span(scratch));
  auto y = x;
  pith::compress(pith::seq, codec, pith::span(x), pith::span(payload), state, ws);
  pith::decompress(pith::seq, codec, pith::span(payload), pith::span(y), state, ws);

  double error = 0, energy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(x[i] - y[i]), 2);
    energy += std::pow(static_cast<double>(x[i]), 2);
  }
  std::printf("%s makes %zu bytes %zu\n", codec.name().c_str(), 4 * x.size(), payload.size());
  std::printf("relative error %.3f in one step\n", error / energy);
}
