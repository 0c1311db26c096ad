// tests/collective/reduce_scatter_test.cpp — every rank receives the mean of its shard.
#include <pith/adaptor/identity.hpp>
#include <pith/collective/g_top_k.hpp>
#include <pith/collective/reduce_scatter.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/group.hpp"
#include "support/parsed.hpp"
#include "support/sixteenths.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

using namespace support;

namespace {

using sizes = std::vector<std::uint64_t>;

sizes sizes_of(pith::sharding const& rule, pith::shape const& dims, unsigned ranks) {
  auto all = sizes();
  for (unsigned r = 0; r < ranks; ++r) all.push_back(rule.first(dims, ranks, r + 1) - rule.first(dims, ranks, r));
  return all;
}

/// All rules that divide a tensor among the ranks; the last has given sizes, among them 0 and odd ones.
std::vector<pith::sharding> rules(std::uint64_t n, unsigned ranks) {
  auto given = sizes(ranks);
  for (unsigned r = 0; r + 1 < ranks; ++r) given[r] = r % 2 == 0 ? 0 : n / ranks;
  given.back() = n - std::accumulate(given.begin(), given.end(), std::uint64_t{0});
  return {pith::sharding::equal(), pith::sharding::rows(), pith::sharding(given)};
}

/// One tensor of the shards that the ranks received.
template <class In>
std::vector<In> joined(std::vector<std::vector<In>> const& received, pith::sharding const& rule) {
  auto const ranks = static_cast<unsigned>(received.size());
  auto const dims = pith::shape{received[0].size()};
  auto whole = std::vector<In>();
  for (unsigned r = 0; r < ranks; ++r) {
    auto const first = rule.first(dims, ranks, r), end = rule.first(dims, ranks, r + 1);
    whole.insert(whole.end(), received[r].data() + first, received[r].data() + end);
  }
  REQUIRE(whole.size() == dims.n);
  return whole;
}

constexpr std::size_t scattered_sizes[] = {0, 1, 7, 8, 100, 1001, 4099};

/// The residuals of all ranks plus the means, times the ranks, are all gradients. Sums of sixteenths are exact.
template <class In, class F>
void check_shards_conserve(pith::sharding const& rule, unsigned ranks, std::size_t n, F const& policy) {
  auto const codec = pith::error_feedback(pith::reduce_scatter(pith::top_k(0.1), rule), policy);
  auto g = group<In, std::remove_const_t<decltype(codec)>>(codec, {n}, ranks);
  auto missing = std::vector<double>(n);
  for (int step = 0; step < 25; ++step) {
    auto given = std::vector<std::vector<In>>();
    for (unsigned r = 0; r < ranks; ++r) given.push_back(narrow<In>(widen(sixteenths(n, r, step))));
    auto const received = joined(g.all_reduce(given), rule);
    for (std::size_t i = 0; i < n; ++i) {
      missing[i] -= pith::element_cast<double>(received[i]) * ranks;
      for (auto const& x : given) missing[i] += pith::element_cast<double>(x[i]);
    }
  }
  for (unsigned r = 0; r < ranks; ++r) {
    auto const rest = kept(policy_state(g.local(r)).residual);
    for (std::size_t i = 0; i < n; ++i) missing[i] -= rest[i];
  }
  CHECK(std::count_if(missing.begin(), missing.end(), [](double v) { return v != 0; }) == 0);
}

}  // namespace

TEST_CASE("equal shards differ by at most one element, and the larger ones come first") {
  auto const equal = pith::sharding::equal();
  CHECK(sizes_of(equal, {10}, 4) == sizes{3, 3, 2, 2});
  CHECK(sizes_of(equal, pith::matrix(2, 5), 4) == sizes{3, 3, 2, 2});
  CHECK(sizes_of(equal, {2}, 3) == sizes{1, 1, 0});
  CHECK(sizes_of(equal, {0}, 2) == sizes{0, 0});
  auto const most = ~std::uint64_t{0};
  CHECK(sizes_of(equal, {most}, 2) == sizes{most / 2 + 1, most / 2});
}

TEST_CASE("shards of rows are those of torch.chunk: the last may be short or empty") {
  auto const rows = pith::sharding::rows();
  CHECK(sizes_of(rows, pith::matrix(10, 3), 4) == sizes{9, 9, 9, 3});
  CHECK(sizes_of(rows, pith::matrix(5, 7), 4) == sizes{14, 14, 7, 0});
  CHECK(sizes_of(rows, pith::matrix(8, 2), 4) == sizes{4, 4, 4, 4});
  CHECK(sizes_of(rows, {10}, 4) == sizes{3, 3, 3, 1});
  CHECK(sizes_of(rows, pith::matrix(5, 0), 2) == sizes{0, 0});
  auto const most = ~std::uint64_t{0};
  CHECK(sizes_of(rows, {most}, 3) == sizes{most / 3, most / 3, most / 3});
  CHECK(sizes_of(rows, {most - 1}, 3) == sizes{most / 3, most / 3, most / 3 - 1});
}

TEST_CASE("given sizes must fit the tensor and the ranks") {
  auto comm = pith::self_communicator();
  auto const make = [&](sizes const& of) {
    pith::make_exchange<float>(pith::seq, comm, {{"w", {10}}},
                               pith::reduce_scatter(pith::qsgd<8>(), pith::sharding(of)));
  };
  CHECK_NOTHROW(make({10}));
  CHECK_THROWS_WITH_AS(make({5, 5}), "pith::reduce_scatter: sizes must have 1 entries, one per rank, got sizes(5,5)",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(make({9}), "pith::reduce_scatter: sizes must sum to 10, got sizes(9)", std::invalid_argument);
  auto const small = pith::reduce_scatter(pith::qsgd<8>(), pith::sharding({9}));
  CHECK_THROWS_AS(pith::workspace_bytes<float>(pith::seq, small, {9}, 2), std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::sharding({9, ~std::uint64_t{0}}),
                       "pith::sharding: sizes must sum to less than 2^64, got 18446744073709551615 after 9",
                       std::invalid_argument);
}

TEST_CASE("sharding::first refuses ranks that do not exist") {
  auto const two = pith::sharding({5, 5});
  CHECK_THROWS_WITH_AS(two.first({10}, 2, 3),
                       "pith::sharding::first: rank must be at most 2, the number of ranks, got 3",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(two.first({10}, 3, 1),
                       "pith::sharding::first: sizes must have 3 entries, one per rank, got sizes(5,5)",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::sharding::equal().first({10}, 0, 0),
                       "pith::sharding::first: ranks must be at least 1, got 0", std::invalid_argument);
}

TEST_CASE("reduce_scatter of a lossless codec gives every rank the exact mean of its shard") {
  for (unsigned const ranks : {1u, 2u, 4u}) {
    for (auto const n : scattered_sizes) {
      for (auto const& rule : rules(n, ranks)) {
        auto const codec = pith::reduce_scatter(pith::identity(), rule);
        auto g = group<float, std::remove_const_t<decltype(codec)>>(codec, {n}, ranks);
        auto const given = all_sixteenths(n, ranks);
        auto mean = std::vector<double>(n);
        for (auto const& x : given)
          for (std::size_t i = 0; i < n; ++i) mean[i] += static_cast<double>(x[i]) / ranks;
        CHECK(widen(joined(g.all_reduce(given), rule)) == mean);
      }
    }
  }
}

TEST_CASE("a shard is encoded as a vector of its own") {
  auto const rule = pith::sharding::equal();
  auto const codec = pith::reduce_scatter(pith::scaled_sign(64), rule);
  for (unsigned const ranks : {1u, 3u}) {
    auto const given = all_sixteenths(1001, ranks);
    auto g = group<float, std::remove_const_t<decltype(codec)>>(codec, {1001}, ranks);
    auto const received = g.all_reduce(given);
    for (unsigned r = 0; r < ranks; ++r) {
      auto const first = static_cast<std::ptrdiff_t>(rule.first({1001}, ranks, r)),
                 end = static_cast<std::ptrdiff_t>(rule.first({1001}, ranks, r + 1));
      auto shards = std::vector<std::vector<float>>();
      for (auto const& x : given) shards.emplace_back(x.begin() + first, x.begin() + end);
      auto alone = group<float, pith::scaled_sign>(pith::scaled_sign(64), {shards[0].size()}, ranks);
      CHECK(same_bytes(std::vector<float>(received[r].begin() + first, received[r].begin() + end),
                       alone.all_reduce(shards)[0]));
    }
  }
}

TEST_CASE("means plus residuals equal the gradients with feedback, for every rule and element type") {
  for (unsigned const ranks : {1u, 2u, 4u}) {
    for (auto const n : scattered_sizes) {
      for (auto const& rule : rules(n, ranks)) {
        check_shards_conserve<float>(rule, ranks, n, pith::residual());
        check_shards_conserve<pith::bfloat16>(rule, ranks, n, pith::residual());
        check_shards_conserve<pith::half>(rule, ranks, n, pith::residual());
        check_shards_conserve<float>(rule, ranks, n, pith::own_residual());
      }
    }
  }
}

TEST_CASE("random bits of different shards differ") {
  // Each element is 1/2 between two levels of a bucket whose maximum is 254: each of 2 x 64 roundings is a coin's.
  auto const codec = pith::reduce_scatter(pith::qsgd<8>(127, 64, pith::norm::max), pith::sharding::equal());
  auto g = group<float, std::remove_const_t<decltype(codec)>>(codec, {128}, 2);
  auto x = std::vector<float>(128, 1.f);
  x[0] = x[64] = 254;
  auto const whole = joined(g.all_reduce({x, x}), pith::sharding::equal());
  CHECK(std::vector<float>(whole.begin(), whole.begin() + 64) != std::vector<float>(whole.begin() + 64, whole.end()));
}

TEST_CASE("a state of one number of ranks and sizes is imported with another") {
  auto const codec = [](sizes const& of) {
    return pith::error_feedback(pith::reduce_scatter(pith::scaled_sign(), pith::sharding(of)));
  };
  auto saved = std::vector<std::vector<std::byte>>(3);
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"w", {10}}}, codec({1, 2, 7}));
    auto x = sixteenths(10, comm.rank());
    exchange.all_reduce_mean(pith::span<float>(x));
    saved[comm.rank()] = exchange.export_state();
  });
  auto const resumed = pith::reshard(saved, 2);
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"w", {10}}}, codec({6, 4}));
    CHECK_NOTHROW(exchange.import_state(resumed[comm.rank()]));
  });
}

TEST_CASE("a weighted mean reaches the owners of shards") {
  pith::run_ranks(3, [](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"w", {10}}}, pith::reduce_scatter(pith::identity()),
                                               {.is_weighted = true});
    auto x = sixteenths(10, comm.rank());
    exchange.all_reduce_mean(pith::span<float>(x), comm.rank() == 1 ? 3 : comm.rank());
    auto const first = pith::sharding::equal().first({10}, 3, comm.rank());
    auto const end = pith::sharding::equal().first({10}, 3, comm.rank() + 1);
    for (auto i = first; i < end; ++i) {
      // Weights 0, 3 and 2. No gradient exceeds 16. A term is rounded with its factor and its product, then the sum is,
      // and the mean: four roundings of numbers of at most 16.
      auto const mean =
          (3 * static_cast<double>(sixteenths(10, 1)[i]) + 2 * static_cast<double>(sixteenths(10, 2)[i])) / 5;
      CHECK(std::abs(static_cast<double>(x[i]) - mean) <= 4 * 16 * 0x1p-24);
    }
  });
}

TEST_CASE("a rank sends (N - 1) / N of one payload") {
  pith::run_ranks(4, [](pith::thread_communicator comm) {
    auto const tensors = std::vector<pith::tensor_spec>{{"a", {4096}}, {"b", {100}}};
    auto ex = pith::make_exchange<float>(pith::seq, comm, tensors, pith::reduce_scatter(pith::qsgd<8>()));
    auto x = sixteenths(ex.size(), comm.rank());
    ex.all_reduce_mean(pith::span<float>(x));
    // Shards of 1,024 and 25 elements: a byte for each, then a scale for each 128, both in multiples of 8 bytes.
    auto const piece = (1024 + 8 * 4) + (32 + 8);
    CHECK(ex.traffic().scattered == std::size_t{4 * piece});
    CHECK(ex.traffic().gathered == 0);
    auto const report = ex.report();
    CHECK(report.tensors[0].wire_bytes + report.tensors[1].wire_bytes == 3 * piece);
  });
}

TEST_CASE("the text of reduce_scatter can be parsed, inside feedback too") {
  for (auto const* text : {"reduce_scatter(qsgd<8>)", "ef(reduce_scatter(top_k(0.1)|qsgd<8>,rows))",
                           "bypass(ef(reduce_scatter(scaled_sign)),1024)", "reduce_scatter(identity,sizes(3,0,7))"}) {
    CHECK(pith::parse<float>(text).name() == text);
  }
  CHECK_THROWS_WITH_AS(pith::parse<float>("reduce_scatter(identity,columns)"),
                       "pith::parse: expected rows or sizes(n,...) in \"reduce_scatter(identity,columns)\", got "
                       "\"columns\"",
                       std::invalid_argument);
}

TEST_CASE("sizes in a text have no angle brackets and at least one number") {
  CHECK_THROWS_WITH_AS(pith::parse<float>("reduce_scatter(identity,sizes<3>(10))"),
                       "pith::parse: sizes takes no <3>, got \"sizes<3>(10)\"", std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::parse<float>("reduce_scatter(identity,sizes)"),
                       "pith::parse: sizes takes 1 to 1024 arguments, got \"sizes\"", std::invalid_argument);
}

TEST_CASE("codecs that cannot encode a shard alone are refused") {
  auto const* const words =
      "pith::reduce_scatter: codec must compress vectors, got power_sgd(2), which compresses "
      "only matrices";
  CHECK_THROWS_WITH_AS(pith::reduce_scatter(pith::power_sgd(2)), words, std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::parse<float>("reduce_scatter(power_sgd(2))"), words, std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::parse<float>("ef(two_shot(power_sgd(2)))"),
                       "pith::two_shot: codec must compress vectors, got power_sgd(2), which compresses only matrices",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      (pith::make_state<float>(pith::seq, pith::reduce_scatter(pith::error_feedback(pith::qsgd<8>())), {100})),
      "pith::reduce_scatter: codec must have no state, got ef(qsgd<8>): for gradients, put feedback around the "
      "exchange, "
      "ef(reduce_scatter(c, ...))",
      std::invalid_argument);
  auto const check_rounds = [](auto const& codec) {
    auto const sentence = "pith::reduce_scatter: codec must have no rounds of its own, got " + codec.name();
    CHECK_THROWS_WITH_AS((pith::make_state<float>(pith::seq, pith::reduce_scatter(codec), {100})), sentence.c_str(),
                         std::invalid_argument);
  };
  check_rounds(pith::two_shot(pith::qsgd<8>()));
  check_rounds(pith::g_top_k(0.1));
  check_rounds(pith::parse<float>("ring(qsgd<8>)"));
  CHECK_THROWS_WITH_AS(pith::parse<float>("reduce_scatter(two_shot(qsgd<8>))"), doctest::Contains("is not a stage"),
                       std::invalid_argument);
}

TEST_CASE("feedback policies that need the mean of the whole tensor are refused") {
  auto const check = [](auto const& policy, std::string const& name) {
    auto const codec = pith::error_feedback(pith::reduce_scatter(pith::scaled_sign()), policy);
    auto const words = "pith::error_feedback: " + name +
                       " needs the mean of the whole tensor, which a rank does not receive, got "
                       "reduce_scatter(scaled_sign): use residual() or own_residual()";
    CHECK_THROWS_WITH_AS((pith::make_state<float>(pith::seq, codec, {100})), words.c_str(), std::invalid_argument);
    CHECK_THROWS_WITH_AS((pith::make_state<float>(pith::seq, pith::parse<float>(codec.name()), {100})), words.c_str(),
                         std::invalid_argument);
  };
  check(pith::mean_residual(), "mean_residual");
  check(pith::ef21(), "ef21");
  check(pith::two_sided(pith::scaled_sign()), "two_sided(scaled_sign)");
  auto const momentum = pith::error_feedback(pith::reduce_scatter(pith::scaled_sign()), pith::momentum_correction(0.9));
  CHECK_NOTHROW(pith::make_state<float>(pith::seq, momentum, {100}));
}
