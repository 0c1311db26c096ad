// tests/support/fed_back.hpp — error feedback is lossless over time: decoded values and residual add up.
#pragma once

#include <pith/feedback/error_feedback.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include "support/roundtrip.hpp"

namespace support {

/// The residual after one rank has exchanged x in four steps; numbers stay below `bound`.
template <class C>
std::vector<double> kept_of(C const& codec, std::vector<float> const& x, double bound) {
  constexpr int steps = 4;
  auto const fed = pith::error_feedback(codec, pith::unverified);
  auto t = trial<float, std::remove_const_t<decltype(fed)>>(fed, {x.size()});
  auto sum = std::vector<double>(x.size());
  for (int step = 0; step < steps; ++step) {
    auto const received = widen(t.all_reduce(x));
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += received[i];
  }
  auto const view = std::get<1>(t.state().local().each).residual.view();
  auto const rest = widen(std::vector<float>(view.begin(), view.end()));
  // A step rounds two numbers.
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(std::abs(sum[i] + rest[i] - steps * static_cast<double>(x[i])) <= 2 * steps * std::ldexp(bound, -24));
  return rest;
}

}  // namespace support
