// pith/exec/self_test.hpp — a test that random rounding works on the executor in use.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/core/draws.hpp>
#include <pith/core/error.hpp>
#include <pith/core/executor.hpp>
#include <pith/core/team.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Rounds the floats 1 + 2^-9, 1 + 2^-8 and 1 + 3 x 2^-9 at random to bfloat16. The result is 0x3f80, or 0x3f81 with the
/// probabilities 1/4, 1/2 and 3/4. Block b rounds float b, with the random bits that a quantizer would use.
struct rounded_samples {
  static constexpr std::uint32_t floats = 3, octets = 256, items_per_block = 8 * octets;
  struct memory {
    fast_array<std::uint16_t, items_per_block> random;
  };

  std::uint64_t const* step;
  std::uint16_t* to;

  template <class Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t b) const {
    auto const* const random = fast.random.data();
    team.random(draws(encoding_id{.step = step, .seed = 0x5e1f7e57}), octets * b, octets, fast.random.data());
    auto const value = 0x3f800000u + (1 + static_cast<std::uint32_t>(b)) * 0x4000u;
    auto* const rounded = to + items_per_block * b;
    team.for_each(items_per_block,
                  [=](std::uint32_t i) { rounded[i] = static_cast<std::uint16_t>((value + random[i]) >> 16); });
  }
};

inline void require_rounding(std::vector<std::uint16_t> const& got) {
  constexpr auto n = rounded_samples::items_per_block;
  std::uint64_t const step = 0;
  auto expected = std::vector<std::uint16_t>(got.size());
  auto fast = rounded_samples::memory();
  for (std::uint64_t b = 0; b < rounded_samples::floats; ++b)
    rounded_samples{&step, expected.data()}(serial_team(), fast, b);
  auto up = std::array<double, rounded_samples::floats>();
  for (std::size_t i = 0; i < got.size(); ++i) up[i / n] += got[i] == 0x3f81 ? 1 : 0;
  for (std::size_t j = 0; j < up.size(); ++j) {
    auto const p = static_cast<double>(j + 1) / 4, mean = n * p, five_sigma = 5 * std::sqrt(mean * (1 - p));
    if (std::abs(up[j] - mean) <= five_sigma) continue;
    throw std::runtime_error(sentence("self_test: random rounding is biased on this executor: of ", n, " values, ",
                                      mean - five_sigma, " to ", mean + five_sigma, " must be rounded up, got ",
                                      up[j]));
  }
  auto const at = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
  if (got != expected)
    throw std::runtime_error(sentence("self_test: random rounding on this executor must equal that of the host, got ",
                                      got[static_cast<std::size_t>(at)], " in place of ",
                                      expected[static_cast<std::size_t>(at)], " for value ", at));
}

}  // namespace detail

/// Tests random rounding on an executor: 6,144 results are unbiased within five standard deviations, and equal those of
/// scalar code on the host. A gradient_exchange calls it in its constructor, once per process and device, or instruction
/// set of a host, unless exchange_options::self_test is false.
///
///   complexity  one kernel that draws 768 random blocks; waits for it; allocates 12 KiB on the executor
///   errors      std::runtime_error if the results are wrong. Means would have a systematic error, or decoders that draw
///               would decode other values on this executor than on others
template <executor E>
void self_test(E const& exec) {
  auto const step = buffer<std::uint64_t, E>(exec, 1);
  using samples = detail::rounded_samples;
  auto const results = buffer<std::uint16_t, E>(exec, samples::floats * samples::items_per_block);
  exec.for_each_block(samples::floats, samples{step.data(), results.data()});
  auto got = std::vector<std::uint16_t>(results.size());
  exec.download(got.data(), results.data(), results.size_bytes());
  detail::require_rounding(got);
}

namespace detail {

/// Calls self_test for the first executor of this type and device, or instruction set.
template <executor E>
void self_test_once(E const& exec) {
  static auto mutex = std::mutex();
  static auto tested = std::vector<int>();
  auto place = exec.device_number();
  if constexpr (requires { exec.level(); }) place = static_cast<int>(exec.level());
  auto const lock = std::scoped_lock(mutex);
  if (std::ranges::find(tested, place) != tested.end()) return;
  self_test(exec);
  tested.push_back(place);
}

}  // namespace detail
}}  // namespace pith::PITH_ABI
