// tests/exchange/sharded_test.cpp — parts of the mean, and the whole from parts: the two shots one after the other.
#include <pith/adaptor/identity.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/exchange/all_gather.hpp>
#include <pith/exchange/reduce_scatter_mean.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/group.hpp"
#include "support/sixteenths.hpp"

#include <mutex>
#include <vector>

using namespace support;

namespace {

constexpr std::size_t sharded_sizes[] = {0, 1, 9, 100, 1000, 4099};

/// A workspace of exactly `bytes` bytes.
template <class F>
void with_scratch(std::size_t bytes, F const& f) {
  auto memory = std::vector<std::byte>(bytes);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  f(ws);
  CHECK(ws.high_water() <= bytes);
}

/// The mean of a rank's part, then of all parts, in each of `steps` steps.
template <class In, class First, class Second>
std::vector<std::vector<In>> sharded(First const& first, Second const& second, std::vector<std::vector<In>> x,
                                     int steps) {
  auto const ranks = static_cast<unsigned>(x.size());
  auto const over = pith::parts_for(x[0].size(), ranks, first, second);
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto const owner = pith::tensor_id{0x5eed, 1, static_cast<std::uint16_t>(comm.rank())};
    auto const own = over.dims(comm.rank());
    auto scattering = pith::make_state<In>(pith::seq, first, {over.n}, owner);
    auto gathering = pith::make_state<In>(pith::seq, second, own, owner);
    auto part = std::vector<In>(own.n);
    auto whole = x[comm.rank()];
    for (int step = 0; step < steps; ++step) {
      with_scratch(pith::reduce_scatter_mean_workspace_bytes<In>(pith::seq, first, over, ranks), [&](auto& ws) {
        pith::reduce_scatter_mean<In>(pith::seq, comm, first, over, pith::span<In const>(x[comm.rank()]),
                                      pith::span<In>(part), scattering, ws);
      });
      with_scratch(pith::all_gather_workspace_bytes<In>(pith::seq, second, over, ranks), [&](auto& ws) {
        pith::all_gather<In>(pith::seq, comm, second, over, pith::span<In const>(part), pith::span<In>(whole),
                             gathering, ws);
      });
    }
    x[comm.rank()] = whole;
  });
  return x;
}

template <class In, class First, class Second>
void check_is_two_shot(First const& first, Second const& second, int steps = 2) {
  for (unsigned const ranks : {1u, 2u, 3u, 5u}) {
    for (auto const n : sharded_sizes) {
      auto x = std::vector<std::vector<In>>();
      for (unsigned r = 0; r < ranks; ++r) x.push_back(narrow<In>(widen(sixteenths(n, r))));
      auto shots = group<In, pith::two_shot<First, Second>>(pith::two_shot(first, second), {n}, ranks);
      auto expected = x;
      for (int step = 0; step < steps; ++step) expected = shots.all_reduce(x);
      CHECK(same_bytes(replicated_mean(sharded<In>(first, second, x, steps)), replicated_mean(expected)));
    }
  }
}

}  // namespace

TEST_CASE("one after the other they are two_shot, bit for bit") {
  check_is_two_shot<float>(pith::identity(), pith::identity());
  check_is_two_shot<float>(pith::qsgd<8>(), pith::qsgd<8>());
  check_is_two_shot<double>(pith::scaled_sign(64), pith::qsgd<4>(7, 24));
  check_is_two_shot<pith::half>(pith::qsgd<8>(), pith::identity());
  check_is_two_shot<pith::bfloat16>(pith::top_k(0.5) | pith::qsgd<8>(), pith::qsgd<8>());
}

TEST_CASE("an all-gather with error feedback on each rank's part has the bits of two_shot") {
  check_is_two_shot<float>(pith::qsgd<8>(), pith::error_feedback(pith::scaled_sign()), 5);
}

TEST_CASE("parts begin at multiples of 8 elements, and the last may be short or empty") {
  CHECK(pith::parts_for(1000, 3, pith::qsgd<8>()).size == 336);
  CHECK(pith::parts_for(1000, 3, pith::any_codec<float>(pith::qsgd<8>())).size == 336);
  CHECK(pith::parts_for(1000, 2, pith::identity()).size == 504);
  auto const over = pith::parts_for(12, 4, pith::qsgd<8>());
  CHECK(over.dims(1).n == 4);
  CHECK(over.dims(2).n == 0);
}

TEST_CASE("reduce_scatter_mean and all_gather refuse parts, codecs and states that do not fit") {
  auto comm = pith::self_communicator();
  auto memory = std::vector<std::byte>(1 << 16);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto x = std::vector<float>(100);
  auto const scatter = [&](auto const& codec, pith::tensor_parts const& over, std::size_t part) {
    auto state = pith::make_state<float>(pith::seq, codec, {100});
    pith::reduce_scatter_mean<float>(pith::seq, comm, codec, over, pith::span<float const>(x),
                                     pith::span<float>(x).first(part), state, ws);
  };
  auto const over = pith::parts_for(100, 1, pith::qsgd<8>());
  CHECK_THROWS_WITH_AS(scatter(pith::qsgd<8>(), pith::tensor_parts(100, 2, 4), 100),
                       "pith::reduce_scatter_mean: the size of a part must be a multiple of 8 for qsgd<8>, got 52: use "
                       "parts_for(n, ranks, codec)",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      scatter(pith::identity(), pith::parts_for(100, 2), 100),
      "pith::reduce_scatter_mean: parts of 1 ranks must cover 100 elements, got 56: use parts_for(n, ranks, codec)",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(scatter(pith::qsgd<8>(), over, 99),
                       "pith::reduce_scatter_mean: part must have 100 elements, got 99", std::invalid_argument);
  CHECK_THROWS_WITH_AS(scatter(pith::error_feedback(pith::qsgd<8>()), pith::parts_for(100, 1, pith::qsgd<8>()), 100),
                       "pith::reduce_scatter_mean: codec must have no state, got ef(qsgd<8>)", std::invalid_argument);
  auto state = pith::make_state<float>(pith::seq, pith::identity(), {100}, {0, 0, 3});
  CHECK_THROWS_WITH_AS(
      (pith::all_gather<float>(pith::seq, comm, pith::identity(), over, pith::span<float const>(x),
                               pith::span<float>(x), state, ws)),
      "pith::all_gather: the state's rank must be 0, got 3: pass the communicator's rank to make_state",
      std::invalid_argument);
  auto const fed = pith::error_feedback(pith::scaled_sign(), pith::ef_sign(0.5));
  auto of_fed = pith::make_state<float>(pith::seq, fed, {100});
  CHECK_THROWS_WITH_AS((pith::all_gather<float>(pith::seq, comm, fed, pith::parts_for(100, 1),
                                                pith::span<float const>(x), pith::span<float>(x), of_fed, ws)),
                       "pith::all_gather: the feedback of the codec must not change means, got "
                       "ef(scaled_sign,ef_sign(0.5))",
                       std::invalid_argument);
}
