// tests/exchange/reshard_test.cpp — states of N ranks as those of M: the law of docs/composing.md against naive sums.
#include <pith/exchange/reshard.hpp>

#include <pith/adaptor/rated.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/l_greco.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/par.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/sidco.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"
#include "support/saved_fields.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using pith::reshard;
using pith::seq;
using support::read_state;
using support::saved_field;
using support::state_bytes;
using support::write_state;
using job = std::vector<state_bytes>;

/// Values that no two ranks and elements share, some of them negative, none exact in binary after a division by three.
double value_at(unsigned rank, std::size_t i) { return (static_cast<double>((rank * 31 + i * 7) % 101) - 50) / 4; }
std::vector<double> values_of(unsigned rank, std::size_t n) {
  auto x = std::vector<double>();
  for (std::size_t i = 0; i < n; ++i) x.push_back(value_at(rank, i));
  return x;
}
constexpr double max_value = 12.5;

std::vector<double> bytes_of(unsigned rank, std::size_t n) {
  auto x = values_of(rank, n);
  for (auto& value : x) value = 4 * (value + max_value);  // whole, from 0 to 100
  return x;
}

/// What rounding to an element adds to a number at most, relative to it; half is rounded from float.
double roundoff(std::string const& element) {
  if (element == "double") return std::ldexp(1, -53);
  if (element == "float") return std::ldexp(1, -24);
  return element == "half" ? std::ldexp(1, -11) + std::ldexp(1, -24) : std::ldexp(1, -8) + std::ldexp(1, -24);
}
/// A mean by weights of `terms` values of at most max_value, in double: the weights are rounded, and products, and sums.
double sum_error(std::size_t terms) { return static_cast<double>(terms + 1) * std::ldexp(max_value, -53); }

/// M times the sum of old values weighted by how much of [i / M, (i + 1) / M) lies in [r / N, (r + 1) / N).
double mixed(std::vector<std::vector<double>> const& old, std::size_t at, unsigned i, unsigned ranks) {
  auto const n = static_cast<double>(old.size()), m = static_cast<double>(ranks);
  double sum = 0;
  for (std::size_t r = 0; r < old.size(); ++r) {
    auto const first = static_cast<double>(r);
    auto const from = std::max(first / n, i / m), to = std::min((first + 1) / n, (i + 1) / m);
    sum += m * std::max(0.0, to - from) * old[r][at];
  }
  return sum;
}
/// That of the oracle: bounds of intervals are off by 2^-53 each, so a weight by 4 of them times M, at most 8.
double oracle_error(std::size_t ranks) { return static_cast<double>(ranks) * 32 * std::ldexp(max_value, -53); }

job job_of(unsigned ranks, std::vector<saved_field> const& fields) {
  auto states = job();
  for (unsigned r = 0; r < ranks; ++r) {
    auto own = fields;
    for (auto& f : own)
      if (f.values.empty()) f.values = f.element == "byte" ? bytes_of(r, f.count) : values_of(r, f.count);
    states.push_back(write_state(r, ranks, own));
  }
  return states;
}

/// The values of a field of each state.
std::vector<std::vector<double>> values_in(job const& states, std::size_t field = 0) {
  auto all = std::vector<std::vector<double>>();
  for (auto const& state : states) all.push_back(read_state(state).fields[field].values);
  return all;
}

template <class F>
void for_numbers_of_ranks(F const& f) {
  for (unsigned from = 1; from <= 8; ++from) {
    for (unsigned to = 1; to <= 8; ++to) {
      CAPTURE(from);
      CAPTURE(to);
      f(from, to);
    }
  }
}

void check_close(std::vector<double> const& got, std::vector<double> const& expected, double relative,
                 double absolute) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(std::abs(got[i] - expected[i]) <= relative * std::abs(expected[i]) + absolute);
}

std::string refusal_of(job const& states, unsigned ranks) {
  try {
    reshard(states, ranks);
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "none";
}

/// Without the ranks that are named.
job without(job states, std::vector<unsigned> const& lost) {
  for (auto r = lost.rbegin(); r != lost.rend(); ++r) states.erase(states.begin() + *r);
  return states;
}

}  // namespace

TEST_CASE("a new rank gets of each old one as much as their intervals have in common") {
  for (std::string const element : {"float", "double", "half", "bfloat16"}) {
    for (std::size_t const n : {0u, 1u, 5u, 8u}) {
      for_numbers_of_ranks([&](unsigned from, unsigned to) {
        auto const old = job_of(from, {{"share", element, n}});
        auto const made = reshard(old, to);
        REQUIRE(made.size() == to);
        for (unsigned i = 0; i < to; ++i) {
          auto const after = read_state(made[i]);
          CHECK(after.lines == read_state(write_state(i, to, {})).lines);
          auto expected = std::vector<double>();
          for (std::size_t at = 0; at < n; ++at) expected.push_back(mixed(values_in(old), at, i, to));
          check_close(after.fields[0].values, expected, roundoff(element), 2 * (sum_error(from) + oracle_error(from)));
        }
      });
    }
  }
}

TEST_CASE("reshard keeps the states for the same number of ranks and copies them for a multiple of it") {
  for_numbers_of_ranks([](unsigned from, unsigned to) {
    if (to % from != 0) return;
    auto const old = job_of(from, {{"share", "float", 5}, {"learned", "byte", 3, 1, 0, {}}});
    auto const made = reshard(old, to);
    if (from == to) CHECK(made == old);
    for (unsigned i = 0; i < to; ++i) CHECK(values_in(made)[i] == values_in(old)[i / (to / from)]);
  });
}

TEST_CASE("zeros keep their sign and NaN stays where a rank's field is copied") {
  auto const old = job{write_state(0, 1, {{"share", "float", 2, 1, 0, {-0.0, std::nan("")}}})};
  auto const values = values_in(reshard(old, 3))[2];
  CHECK(std::signbit(values[0]));
  CHECK(std::isnan(values[1]));
}

TEST_CASE("the mean over the ranks stays, exactly where halves are taken") {
  for_numbers_of_ranks([](unsigned from, unsigned to) {
    auto const old = job_of(from, {{"share", "double", 5}});
    auto const before = values_in(old), after = values_in(reshard(old, to));
    for (std::size_t at = 0; at < 5; ++at) {
      double old_sum = 0, new_sum = 0;
      for (auto const& x : before) old_sum += x[at];
      for (auto const& x : after) new_sum += x[at];
      if (from == 2 * to || from == 4 * to || from == 8 * to) CHECK(new_sum * from == old_sum * to);
      CHECK(std::abs(new_sum / to - old_sum / from) <= 2 * sum_error(from + to));
    }
  });
}

TEST_CASE("reshard copies a replicated field to every rank unchanged") {
  auto const replicated = saved_field{"agreed", "uint64", 2, 1, 0, {3, 4}};
  auto const old = job_of(3, {replicated, {"share", "float", 2}, replicated});
  for (unsigned rank = 0; rank < 5; ++rank) CHECK(reshard(old, 5, rank) == reshard(old, 5)[rank]);
  CHECK_THROWS_WITH_AS(reshard(old, 5, 5), "pith::reshard: rank must be below 5, got 5", std::invalid_argument);
  for (auto const& state : reshard(old, 5)) {
    CHECK(read_state(state).fields[0].values == replicated.values);
    CHECK(read_state(state).fields[2].values == replicated.values);
  }
}

TEST_CASE("a part of a tensor goes to whom it belongs, element by element") {
  for (std::size_t const n : {0u, 1u, 5u, 16u, 37u}) {
    for (std::uint64_t const granule : {1u, 8u, 24u}) {
      for_numbers_of_ranks([&](unsigned from, unsigned to) {
        auto const size = [&](unsigned ranks) {
          return (n + ranks - 1) / ranks + granule - 1 - ((n + ranks - 1) / ranks + granule - 1) % granule;
        };
        auto const fields_of = [&](unsigned rank, unsigned ranks) {
          auto own = std::vector<double>(n);
          for (std::size_t i = 0; i < size(ranks) && rank * size(ranks) + i < n; ++i)
            own[i] = value_at(0, rank * size(ranks) + i);
          return std::vector{saved_field{"part", "float", n, 1, granule, own}};
        };
        auto old = job(), expected = job();
        for (unsigned r = 0; r < from; ++r) old.push_back(write_state(r, from, fields_of(r, from)));
        for (unsigned r = 0; r < to; ++r) expected.push_back(write_state(r, to, fields_of(r, to)));
        CHECK(reshard(old, to) == expected);
      });
    }
  }
}

TEST_CASE("a field of one local rank is shared only among ranks with that local rank in their nodes") {
  auto const old = job_of(6, {{"share", "double", 2, 2}});
  auto const made = values_in(reshard(old, 4)), before = values_in(old);
  for (unsigned i = 0; i < 4; ++i) {
    auto of_place = std::vector<std::vector<double>>();
    for (unsigned r = i % 2; r < 6; r += 2) of_place.push_back(before[r]);
    auto const expected = std::vector{mixed(of_place, 0, i / 2, 2), mixed(of_place, 1, i / 2, 2)};
    check_close(made[i], expected, roundoff("double"), 2 * (sum_error(6) + oracle_error(6)));
  }
}

TEST_CASE("the others' states serve where ranks were lost") {
  auto const fields =
      std::vector<saved_field>{{"mean", "double", 2, 1, 0, {1, 2}}, {"share", "double", 2}, {"estimate", "double", 2}};
  auto const all = job_of(5, fields);
  auto const left = without(all, {1, 4});
  SUBCASE("in full, if as many ranks go on") {
    CHECK(values_in(reshard(left, 3), 1) == values_in(left, 1));
    CHECK(values_in(reshard(left, 3), 2) == values_in(left, 2));
  }
  SUBCASE("and a mean is that of their estimates") {
    auto const own = values_in(left, 2);
    for (auto const& mean : values_in(reshard(left, 2), 0)) {
      auto const expected =
          std::vector{(own[0][0] + own[1][0] + own[2][0]) / 3, (own[0][1] + own[1][1] + own[2][1]) / 3};
      check_close(mean, expected, roundoff("double"), 2 * sum_error(3));
    }
    for (auto const& mean : values_in(reshard(all, 2), 0)) CHECK(mean == std::vector<double>{1, 2});
  }
  SUBCASE("and the lost part of a tensor is zero") {
    auto parts = job();
    for (unsigned r = 0; r < 3; ++r) parts.push_back(write_state(r, 3, {{"part", "float", 3, 1, 1, {r + 1.0, 0, 0}}}));
    CHECK(values_in(reshard(without(parts, {1}), 1)) == std::vector<std::vector<double>>{{1, 0, 3}});
  }
}

TEST_CASE("reshard refuses invalid numbers of ranks and states that are not of one job, and names the fault") {
  auto const fields = std::vector<saved_field>{{"share", "float", 2}};
  auto const old = job_of(3, fields);
  CHECK(refusal_of({}, 2) == "pith::reshard: states must have at least 1 entry, got 0");
  CHECK(refusal_of(old, 0) == "pith::reshard: ranks must be in [1, 65535), got 0");
  CHECK(refusal_of(old, 65535) == "pith::reshard: ranks must be in [1, 65535), got 65535");
  CHECK(refusal_of({old[0], {}}, 2) ==
        "pith::reshard: states[1]: the state is cut off: it must have at least 32 bytes, got 0");
  CHECK(refusal_of({old[0], old[2], old[1]}, 2) ==
        "pith::reshard: states[2]: the rank must be above 2, that of the state before, got 1: pass "
        "the state of each rank once, in rank order");
  CHECK(refusal_of({old[0], old[0]}, 2) ==
        "pith::reshard: states[1]: the rank must be above 0, that of the state before, got 0: pass "
        "the state of each rank once, in rank order");
  CHECK(refusal_of({old[0], job_of(4, fields)[1]}, 2) ==
        "pith::reshard: states[1]: the state must be of a job of 3 ranks, got one of 4");
  CHECK(refusal_of({old[0], job_of(3, {{"share", "double", 2}})[1]}, 2) ==
        "pith::reshard: states[1]: the state must be of field share float 2 places 1 granule 0, got one of field share "
        "double 2 places 1 granule 0");
  auto const other = pith::detail::save_states("gradiveq\nrank 0 of 1\n", {});
  CHECK(refusal_of({other}, 2) ==
        "pith::reshard: states[0]: the state must be of gradient_exchange or adaptive_exchange, got one of gradiveq");
}

TEST_CASE("a damaged byte anywhere is refused") {
  auto const old = job_of(2, {{"share", "float", 2}});
  for (std::size_t at = 0; at < old[1].size(); ++at) {
    auto damaged = old;
    damaged[1][at] ^= std::byte{4};
    CHECK(refusal_of(damaged, 3).starts_with("pith::reshard: states[1]: the state "));
    damaged[1].resize(at);
    CHECK(refusal_of(damaged, 3).starts_with("pith::reshard: states[1]: the state "));
  }
}

TEST_CASE("forged lines are refused in words") {
  auto const of_lines = [](std::string const& lines) {
    return job{pith::detail::save_states("gradient_exchange\n" + lines, std::vector<std::byte>(8))};
  };
  for (auto const* const lines : {"", "rank", "rank 1 of 1\n", "rank 0 of 0\n", "rank 00 of 1\n", "rank 0 of 1 \n",
                                  "rank 0 of 99999999999\n", "rank -1 of 3\n", "seed 3\n"})
    CHECK(refusal_of(of_lines(lines), 1).find("the state must have a line \"rank R of N\", got \"") !=
          std::string::npos);
  for (auto const* const line :
       {"field ", "field share float 2 places 1 granule", "field own float 2 places 1 granule 0",
        "field share int 2 places 1 granule 0", "field share float 2 places 0 granule 0",
        "field share float 02 places 1 granule 0", "field share float 2 places 1 granule 0 0"})
    CHECK(refusal_of(of_lines(std::string("rank 0 of 1\n") + line + '\n'), 1)
              .find("the state must have a line \"field KIND") != std::string::npos);
  auto const huge = of_lines("rank 0 of 1\nfield share float 4611686018427387905 places 1 granule 0\n");
  CHECK(refusal_of(huge, 1).find("must have the bytes of \"field share float 4611686018427387905") !=
        std::string::npos);
  CHECK(refusal_of(of_lines("rank 0 of 1\nfield share float 1 places 1 granule 0\n"), 1) ==
        "pith::reshard: states[0]: the state's fields must have 4 bytes, got 8");
}

TEST_CASE("states that cannot be converted to the number of ranks are refused with the name of the tensor") {
  auto const replicated = [](double x) { return saved_field{"agreed", "float", 1, 1, 0, {x}}; };
  CHECK(refusal_of({write_state(0, 2, {replicated(1)}), write_state(1, 2, {replicated(2)})}, 2) ==
        "pith::reshard: states[1]: the replicated state must be equal on all ranks, got another than states[0] of "
        "tensor \"w\" of 5: pass states that were saved after the same step");
  CHECK(refusal_of(job_of(2, {{"share", "uint32", 1, 1, 0, {1}}}), 2) ==
        "pith::reshard: fields of kind share must have elements that are added up, got uint32 of tensor \"w\" of 5: "
        "pass another field_kind to the visitor of the codec's state");
  auto const fixed = job_of(2, {{"fixed", "float", 1}});
  CHECK(reshard(fixed, 2) == fixed);
  auto const refused = "pith::reshard: ranks and states must be 2 for a field of kind fixed, got ";
  auto const advice = " of tensor \"w\" of 5: the state of this codec cannot be converted to another number of ranks";
  CHECK(refusal_of(fixed, 3) == refused + std::string("3 ranks and 2 states") + advice);
  CHECK(refusal_of(without(fixed, {0}), 2) == refused + std::string("2 ranks and 1 states") + advice);
  auto const nodes = job_of(4, {{"share", "float", 1, 2}});
  CHECK(refusal_of(nodes, 3) ==
        "pith::reshard: ranks must be a multiple of 2, the ranks of a node, got 3 of tensor \"w\" of 5");
  CHECK(refusal_of(without(nodes, {1, 3}), 2) ==
        "pith::reshard: states must have a rank with local rank 1 in its node of 2, got none of tensor \"w\" of 5");
}
