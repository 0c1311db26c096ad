// tests/device/ties.cu — selections among equal magnitudes, of one block and of many.
#include <pith/sparsify/top_k.hpp>

#include <cmath>
#include <vector>

#include "support/device.hpp"

using namespace support;

namespace {

/// Two steps of a codec on 20,011 given elements.
template <class C>
void same(C const& codec, std::vector<double> const& x) {
  auto const stream = own_stream();
  auto const made = [&](auto const& exec) {
    auto run = execution<float, std::decay_t<decltype(exec)>, C>(exec, codec, {x.size()}, narrow<float>(x));
    run.step();
    run.step();
    return run.bytes();
  };
  CAPTURE(codec.name());
  CHECK(made(pith::on(stream.get())) == made(pith::seq));
}

std::vector<double> sixteenths(std::size_t n) {
  auto x = normal_vector(n, 77);
  for (auto& v : x) v = std::round(16 * v) / 16;
  return x;
}

/// Few large values in a row, which the sample does not see as many.
std::vector<double> crowded(std::size_t n) {
  auto x = normal_vector(n, 78);
  for (std::size_t i = 0; i < n; ++i) x[i] *= i % 16 == 3 ? 1 : 1e-3;
  return x;
}

}  // namespace

TEST_CASE("equal magnitudes are taken in the order of their indices") {
  for (std::size_t const n : {31, 2047, 5003, 20'011, 40'003}) {
    CAPTURE(n);
    same(pith::top_k(0.1), sixteenths(n));
  }
  same(pith::top_k(0.4), sixteenths(20'011));
  same(pith::top_k(0.1), std::vector<double>(40'003, 1));
  same(pith::top_k(0.1), crowded(40'003));
}
