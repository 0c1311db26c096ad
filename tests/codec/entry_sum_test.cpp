// tests/codec/entry_sum_test.cpp — the mean of values at indices has the bits of adding up decoded tensors.
#include <pith/adaptor/rated.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/codec/chain.hpp>
#include <pith/codec/detail/entry_sum.hpp>
#include <pith/exec/par.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/redsync_mean.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/gathered.hpp"
#include "support/thread_team.hpp"

using namespace support;

namespace {

using own_k = pith::random_k<pith::scaling::unbiased, pith::drawing::own>;

/// Of a codec whose type is known, and of the same one as any_codec.
template <class In, class C>
void check_mean(C const& codec, pith::shape dims, unsigned ranks) {
  CAPTURE(codec.name());
  CAPTURE(dims.n);
  CAPTURE(ranks);
  static_assert(pith::detail::lists_entries<C, In, pith::seq_executor>);
  auto const all = gather<In>(codec, dims, ranks);
  CHECK(widen(mean_of(pith::seq, codec, dims, ranks, all)) == widen(all.mean));
  auto const any = pith::any_codec<In, pith::seq_executor>(codec);
  CHECK(widen(mean_of(pith::seq, any, dims, ranks, all)) == widen(all.mean));
}

}  // namespace

TEST_CASE_TEMPLATE("entry sums of each sparsifier give the mean of the decoded payloads on any number of ranks", In,
                   float, double, pith::half, pith::bfloat16) {
  for (std::uint64_t const n : {1u, 9u, 4096u, 20'003u}) {
    for (unsigned const ranks : {2u, 3u, 9u}) {
      check_mean<In>(pith::top_k(0.01), {n}, ranks);
      check_mean<In>(pith::top_k(0.4), {n}, ranks);  // more entries than elements: some ranks at a time
      check_mean<In>(own_k(0.1), {n}, ranks);
      check_mean<In>(pith::threshold(1, 0.5), {n}, ranks);
      check_mean<In>(pith::gaussian_k(0.05), {n}, ranks);
      check_mean<In>(pith::redsync_mean(0.05), {n}, ranks);
      check_mean<In>(pith::rated(pith::top_k(0.1)), {n}, ranks);
    }
  }
}

TEST_CASE_TEMPLATE("entry sums of chains that begin with a sparsifier give the mean of the decoded payloads", In, float,
                   double) {
  auto const check = [](auto const& codec, pith::shape dims) {
    check_mean<In>(codec, dims, 5);
    auto const all = gather<In>(codec, dims, 5);
    CHECK(mean_of(pith::seq, erased<In>(codec), dims, 5, all) == all.mean);
  };
  for (std::uint64_t const n : {9u, 4096u, 20'003u}) {
    check(pith::top_k(0.1) | pith::qsgd<8>(), {n});
    check(pith::threshold(1, 0.5) | pith::qsgd<4>(), {n});
    check(own_k(0.3) | pith::qsgd<8>(), {n});
  }
}

TEST_CASE("entry sums give the mean of the decoded payloads on parallel executors") {
  auto const dims = pith::shape{50'001};
  auto const codec = pith::top_k(0.3);
  auto const all = gather<float>(codec, dims, 7);
  CHECK(mean_of(pith::par(), codec, dims, 7, all) == all.mean);
  CHECK(mean_of(team_executor(4), codec, dims, 7, all) == all.mean);
}

TEST_CASE("less room for entries needs no more scratch") {
  auto const bytes = [](std::uint64_t room) {
    return pith::detail::entry_sum<pith::half>{5000, room, 4}.scratch_bytes();
  };
  for (std::uint64_t room = 1; room < 5000; ++room) CHECK(bytes(room) <= bytes(room + 1));
}

TEST_CASE("indices that do not ascend are added where they are looked for, or nowhere") {
  auto const codec = pith::top_k(0.2);
  auto const dims = pith::shape{30'000};
  auto all = gather<float>(codec, dims, 3);
  auto const garbage = narrow<float>(normal_vector(all.bytes.size() / 4, 5));
  std::memcpy(all.bytes.data(), garbage.data(), garbage.size() * 4);
  auto const x = mean_of(pith::seq, codec, dims, 3, all);
  CHECK(widen(mean_of(pith::par(), codec, dims, 3, all)) == widen(x));
}
