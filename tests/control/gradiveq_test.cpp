// tests/control/gradiveq_test.cpp — phases of a schedule, on all ranks alike.
#include <pith/adaptor/rated.hpp>
#include <pith/codec/detail/saved_state.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/gradiveq.hpp>
#include <pith/exec/seq.hpp>
#include <pith/quantize/summed_terngrad.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/failing.hpp"
#include "support/slices.hpp"

using namespace support;
using pith::gradiveq_phase;

namespace {

template <class In>
using exchange_of = pith::gradient_exchange<In, pith::seq_executor, pith::thread_communicator>;
template <class In>
using schedule_of = pith::gradiveq<In, pith::seq_executor, pith::thread_communicator>;
using codec = pith::any_codec<float, pith::seq_executor>;

/// A vector, two convolutions, one with a short last slice, and a matrix.
std::vector<pith::tensor_spec> const tensors = {
    {"bias", {4}}, {"conv1", {108, 4}}, {"conv2", {150, 5}}, {"fc", {60, 6}}};
std::vector<pith::gradiveq_tensor> const convolutions = {{1, {4, 3, 3, 3}, 36}, {2, {5, 10, 1, 3}, 40}};
constexpr std::size_t elements = 4 + 108 + 150 + 60;

constexpr auto phases = pith::gradiveq_options{.warm_up = 2, .samples = 8, .compressed = 12, .first_losses = 3};

/// Of rank r in step t: slices of `directions` in common.
template <class In = float>
std::vector<In> gradient(unsigned rank, std::uint64_t t, std::uint64_t directions = 700) {
  auto x = normal_vector(elements, 40 + 100 * t + rank);
  auto const one = correlated(108, 36, 3, 100 * t + rank, 0.05, directions);
  auto const two = correlated(150, 40, 3, 200 * t + rank, 0.05, directions + 50);
  auto const& c = convolutions;
  for (std::size_t i = 0; i < one.size(); ++i) x[4 + c[0].conv.order()(i)] = one[i];
  for (std::size_t i = 0; i < two.size(); ++i) x[112 + c[1].conv.order()(i)] = two[i];
  return narrow<In>(x);
}
std::vector<double> mean_gradient(unsigned ranks, std::uint64_t t) {
  auto mean = std::vector<double>(elements);
  for (unsigned r = 0; r < ranks; ++r) {
    auto const own = widen(gradient(r, t));
    for (std::size_t i = 0; i < elements; ++i) mean[i] += own[i] / ranks;
  }
  return mean;
}
std::vector<double> part(std::vector<double> const& x, std::size_t first, std::size_t n) {
  auto const at = x.begin() + static_cast<std::ptrdiff_t>(first);
  return {at, at + static_cast<std::ptrdiff_t>(n)};
}

/// An exchange with its schedule, on one rank of some.
template <class In>
struct rank_of {
  rank_of(pith::thread_communicator& comm, pith::gradiveq_options const& options)
      : exchange(pith::seq, comm, tensors, pith::any_codec<In, pith::seq_executor>(pith::identity())),
        schedule(pith::seq, comm, exchange, convolutions, options) {}

  exchange_of<In> exchange;
  schedule_of<In> schedule;
};

template <class In = float, class F>
void on_ranks(unsigned ranks, pith::gradiveq_options const& options, F const& f) {
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto rank = rank_of<In>(comm, options);
    f(rank, comm);
  });
}

gradiveq_phase phase_at(std::uint64_t t) {
  if (t < 2) return gradiveq_phase::warm_up;
  return (t - 2) % 20 < 8 ? gradiveq_phase::sampling : gradiveq_phase::compressed;
}

}  // namespace

TEST_CASE("convolutions travel as they are, then by qsgd, then by pca, and by qsgd again; others as before") {
  for (unsigned const ranks : {1u, 2u, 4u}) {
    on_ranks(ranks, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
      for (std::uint64_t t = 0; t < 50; ++t) {
        auto const phase = phase_at(t);
        CHECK(rank.schedule.phase() == phase);
        auto const& codecs = rank.exchange.codecs();
        for (std::size_t const i : {1u, 2u}) {
          auto const expected = phase == gradiveq_phase::warm_up    ? "identity"
                                : phase == gradiveq_phase::sampling ? "qsgd<4>"
                                                                    : "pca(";
          CHECK(codecs[i].name().starts_with(expected));
        }
        CHECK(codecs[0].name() == "identity");
        CHECK(codecs[3].name() == "identity");
        auto g = gradient(comm.rank(), t);
        rank.schedule.all_reduce_mean(g);
      }
    });
  }
}

TEST_CASE("all ranks receive the mean during warm-up, and its projection on sampled bases in the compressed phase") {
  on_ranks(2, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    for (std::uint64_t t = 0; t < 22; ++t) {
      auto const phase = rank.schedule.phase();
      auto g = gradient(comm.rank(), t);
      rank.schedule.all_reduce_mean(g);
      auto const mean = mean_gradient(2, t), got = widen(g);
      auto const one = part(mean, 4, 108), two = part(mean, 112, 150);
      // Numbers stay below 16: a float of the sum is off by 16 2^-24; 40 terms along U by some 100 of them.
      auto const off = [&](std::vector<double> const& a, std::size_t first) {
        return std::sqrt(square(minus(a, part(got, first, a.size()))));
      };
      CHECK(off(part(mean, 0, 4), 0) <= 1e-5);
      CHECK(off(part(mean, 262, 60), 262) <= 1e-5);
      if (phase == gradiveq_phase::warm_up) CHECK(off(one, 4) <= 1e-5);
      if (phase == gradiveq_phase::sampling) CHECK(off(one, 4) > 0.1);
      if (phase != gradiveq_phase::compressed) continue;
      auto const& a = *rank.schedule.basis(0);
      auto const& b = *rank.schedule.basis(1);
      CHECK(off(projected(a, one), 4) <= 1e-3);
      CHECK(off(projected(b, two), 112) <= 1e-3);
      CHECK(off(one, 4) > 1e-2);
    }
    CHECK(rank.schedule.basis(0)->slice() == 36);
    CHECK(rank.schedule.basis(1)->slice() == 40);
    CHECK(rank.exchange.traffic().summed > 0);
  });
}

TEST_CASE("bases are those of the means that all received in the sampling phase before, and of no others") {
  on_ranks(2, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    auto const& conv = convolutions[0].conv;
    for (std::uint64_t first : {2u, 22u}) {
      auto samples = pith::slice_samples<float>(108, 36, conv.order());
      for (std::uint64_t t = first == 2 ? 0 : 10; t < first + 8; ++t) {
        auto g = gradient(comm.rank(), t);
        rank.schedule.all_reduce_mean(g);
        if (t >= first) samples.add(pith::span<float const>(g.data() + 4, 108));
      }
      CHECK(rank.schedule.basis(0)->save() == pith::pca_basis::fit(samples).save());
    }
  });
}

TEST_CASE("the local loss is the relative norm of the part of a rank's own gradients outside its bases") {
  on_ranks(2, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    for (std::uint64_t t = 0; t < 12; ++t) {
      auto const phase = rank.schedule.phase();
      auto g = gradient(comm.rank(), t);
      auto const own = widen(g);
      rank.schedule.all_reduce_mean(g);
      if (phase != gradiveq_phase::compressed) continue;
      auto const one = part(own, 4, 108), two = part(own, 112, 150);
      auto const lost = square(minus(one, projected(*rank.schedule.basis(0), one))) +
                        square(minus(two, projected(*rank.schedule.basis(1), two)));
      CHECK(rank.schedule.loss() == doctest::Approx(std::sqrt(lost / (square(one) + square(two)))).epsilon(1e-4));
    }
  });
}

TEST_CASE("all ranks sample again early only when the gradients of more than half of them change") {
  for (unsigned const ranks : {2u, 4u}) {
    for (unsigned moved = 0; moved <= ranks; ++moved) {
      CAPTURE(ranks);
      CAPTURE(moved);
      on_ranks(ranks, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
        for (std::uint64_t t = 0; t < 16; ++t) {
          auto g = gradient(comm.rank(), t, t >= 15 && comm.rank() < moved ? 800 : 700);
          rank.schedule.all_reduce_mean(g);
        }
        auto const is_early = rank.schedule.phase() == gradiveq_phase::sampling;
        CHECK(is_early == (2 * moved > ranks));
        CHECK(rank.schedule.steps() == (is_early ? 0 : 6));
      });
    }
  }
}

TEST_CASE("a step that overlaps the backward pass equals one call") {
  on_ranks(2, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    auto expected = rank_of<float>(comm, phases);
    for (std::uint64_t t = 0; t < 22; ++t) {
      auto g = gradient(comm.rank(), t), of_one_call = g;
      rank.schedule.begin(g);
      for (std::size_t i = rank.exchange.tensors().size(); i-- > 0;) rank.schedule.ready(i);
      rank.schedule.wait();
      expected.schedule.all_reduce_mean(of_one_call);
      CHECK(g == of_one_call);
    }
    CHECK(rank.schedule.export_state() == expected.schedule.export_state());
  });
}

TEST_CASE("gradients at addresses of their own have the means of gradients in one array, in every phase") {
  auto options = phases;
  options.loss_every = 2;
  on_ranks(2, options, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    auto expected = rank_of<float>(comm, options);
    for (std::uint64_t t = 0; t < 22; ++t) {
      auto g = gradient(comm.rank(), t);
      auto separate = std::vector<std::vector<float>>();
      for (std::size_t i = 0, first = 0; i < tensors.size(); first += tensors[i++].dims.n)
        separate.emplace_back(g.data() + first, g.data() + first + tensors[i].dims.n);
      auto elsewhere = std::vector<float>(elements, 99.0f);
      if (t % 3 == 0) {
        rank.schedule.begin(elsewhere);  // ready() sets other addresses
      } else {
        rank.schedule.begin();
        CHECK_THROWS_AS(rank.schedule.wait(), std::invalid_argument);
      }
      for (std::size_t i = tensors.size(); i-- > 0;) {
        rank.schedule.ready(i, separate[i]);
        CHECK_THROWS_AS(rank.schedule.ready(i, separate[i]), std::invalid_argument);
      }
      rank.schedule.wait();
      expected.schedule.all_reduce_mean(g);
      auto together = std::vector<float>();
      for (auto const& one : separate) together.insert(together.end(), one.begin(), one.end());
      CHECK(together == g);
    }
    CHECK(rank.schedule.export_state() == expected.schedule.export_state());
  });
}

TEST_CASE("ready() begins the exchange, except in a step that measures the loss") {
  for (std::uint64_t const stop : {0u, 4u, 10u, 11u}) {
    auto options = phases;
    options.loss_every = 2;
    on_ranks(1, options, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
      for (std::uint64_t t = 0; t < stop; ++t) {
        auto g = gradient(comm.rank(), t);
        rank.schedule.all_reduce_mean(g);
      }
      auto g = gradient(comm.rank(), stop);
      rank.schedule.begin(g);
      CHECK_THROWS_AS(rank.schedule.ready(4), std::invalid_argument);
      for (std::size_t i = 0; i < tensors.size(); ++i) rank.schedule.ready(i);
      CHECK_THROWS_AS(rank.schedule.ready(0), std::invalid_argument);
      if (stop == 10) {
        CHECK_NOTHROW(rank.schedule.skip());
      } else {
        CHECK_THROWS_AS(rank.schedule.skip(), std::invalid_argument);  // the exchange has begun
        rank.schedule.wait();  // until here, the exchange reads g
      }
    });
  }
}

TEST_CASE("losses are looked at as often as is said, after the first ones") {
  auto options = phases;
  options.loss_every = 2;  // looked at in steps 10, 12 and 14, and voted on in 16
  on_ranks(2, options, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    for (std::uint64_t t = 0; t < 17; ++t) {
      CHECK(rank.schedule.phase() == phase_at(t));
      auto g = gradient(comm.rank(), t, t >= 15 ? 800 : 700);
      rank.schedule.all_reduce_mean(g);
    }
    CHECK(rank.schedule.phase() == gradiveq_phase::sampling);
  });
}

TEST_CASE("a restored gradiveq schedule continues with the same bits as the saved one, in every phase") {
  for (auto const feedback : {false, true}) {
    auto options = phases;
    options.feedback = feedback;
    for (std::uint64_t const stop : {0u, 1u, 2u, 6u, 9u, 10u, 15u, 22u, 25u}) {
      CAPTURE(stop);
      on_ranks(2, options, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
        auto const step = [&](rank_of<float>& r, std::uint64_t t) {
          auto g = gradient(comm.rank(), t);
          r.schedule.all_reduce_mean(g);
          return g;
        };
        for (std::uint64_t t = 0; t < stop; ++t) step(rank, t);
        auto const saved = rank.schedule.export_state();
        auto const states = rank.exchange.export_state();
        auto other = rank_of<float>(comm, options);
        other.schedule.import_state(saved);
        other.exchange.import_state(states);
        CHECK(other.schedule.export_state() == saved);
        for (auto t = stop; t < stop + 24; ++t) CHECK(step(other, t) == step(rank, t));
      });
    }
  }
}

TEST_CASE("a restored schedule draws the random numbers of the saved one") {
  auto options = phases;
  options.feedback = true;
  auto const ternary = [](auto basis) { return pith::pca(basis) | pith::summed_terngrad(); };
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto const make = [&](auto& exchange) {
      return pith::gradiveq(pith::seq, comm, exchange, convolutions, options, ternary);
    };
    auto exchange = exchange_of<float>(pith::seq, comm, tensors, codec(pith::identity())),
         other = exchange_of<float>(pith::seq, comm, tensors, codec(pith::identity()));
    auto schedule = make(exchange);
    auto const step = [&](auto& of, std::uint64_t t) {
      auto g = gradient(comm.rank(), t);
      of.all_reduce_mean(g);
      return g;
    };
    for (std::uint64_t t = 0; t < 15; ++t) step(schedule, t);
    auto resumed = make(other);
    resumed.import_state(schedule.export_state(), exchange.export_state());
    CHECK(resumed.loss() == 0);
    for (std::uint64_t t = 15; t < 22; ++t) {
      CHECK(step(resumed, t) == step(schedule, t));
      CHECK(resumed.loss() == schedule.loss());
    }
  });
}

TEST_CASE("both states are restored in one call after a step that threw") {
  using failing = support::failing_communicator<pith::thread_communicator>;
  for (std::uint64_t const stop : {1u, 5u, 12u}) {
    CAPTURE(stop);
    pith::run_ranks(1, [&](pith::thread_communicator threads) {
      auto comm = failing(threads);
      auto exchange = pith::make_exchange<float>(pith::seq, comm, tensors, pith::identity());
      auto schedule = pith::gradiveq(pith::seq, comm, exchange, convolutions, phases);
      auto expected = rank_of<float>(threads, phases);
      auto const step = [&](auto& of, std::uint64_t t) {
        auto g = gradient(0, t);
        of.all_reduce_mean(g);
        return g;
      };
      for (std::uint64_t t = 0; t < stop; ++t) CHECK(step(schedule, t) == step(expected.schedule, t));
      auto const saved = schedule.export_state(), states = exchange.export_state();
      for (std::uint64_t t = stop; t < stop + 9; ++t) step(schedule, t);
      comm.fail(0, support::fault::before);
      CHECK_THROWS_AS(step(schedule, 40), support::lost_call);
      CHECK(exchange.has_failed());
      CHECK_THROWS_AS(schedule.import_state(saved), std::invalid_argument);
      schedule.import_state(saved, states);
      for (std::uint64_t t = stop; t < stop + 24; ++t) CHECK(step(schedule, t) == step(expected.schedule, t));
    });
  }
}

TEST_CASE("a state of tensors in another order is refused, because the samples have no names") {
  auto const same = std::vector<pith::tensor_spec>{{"one", {108, 4}}, {"two", {108, 4}}};
  auto const swapped = std::vector<pith::tensor_spec>{same[1], same[0]};
  auto const kernels = std::vector<pith::gradiveq_tensor>{{0, {4, 3, 3, 3}, 36}, {1, {4, 3, 3, 3}, 36}};
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, same, pith::identity());
  auto schedule = pith::gradiveq(pith::seq, comm, exchange, kernels, phases);
  auto const saved = schedule.export_state(), states = exchange.export_state();
  schedule.import_state(saved, states);
  auto other = pith::make_exchange<float>(pith::seq, comm, swapped, pith::identity());
  auto resumed = pith::gradiveq(pith::seq, comm, other, kernels, phases);
  CHECK_THROWS_WITH_AS(resumed.import_state(saved, states), doctest::Contains("must be listed in the order"),
                       std::invalid_argument);
}

TEST_CASE("no rank changes when the exchange's state of one rank is refused") {
  on_ranks(2, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    auto const saved = rank.schedule.export_state(), states = rank.exchange.export_state();
    for (std::uint64_t t = 0; t < 12; ++t) {
      auto g = gradient(comm.rank(), t);
      rank.schedule.all_reduce_mean(g);
    }
    auto const now = rank.schedule.export_state();
    auto damaged = states;
    damaged.back() ^= std::byte{1};
    if (comm.rank() == 0) CHECK_THROWS_AS(rank.schedule.import_state(saved, states), pith::agreement_error);
    if (comm.rank() == 1) CHECK_THROWS_AS(rank.schedule.import_state(saved, damaged), std::invalid_argument);
    CHECK(rank.schedule.export_state() == now);
    CHECK(rank.exchange.codecs()[1].name().starts_with("pca("));
  });
}

TEST_CASE("a step is lost if its votes cannot be counted") {
  using failing = support::failing_communicator<pith::thread_communicator>;
  pith::run_ranks(1, [&](pith::thread_communicator threads) {
    auto comm = failing(threads);
    auto exchange = pith::make_exchange<float>(pith::seq, comm, tensors, pith::identity());
    auto schedule = pith::gradiveq(pith::seq, comm, exchange, convolutions, phases);
    auto const step = [&](std::uint64_t t) {
      auto g = gradient(0, t);
      schedule.all_reduce_mean(g);
    };
    for (std::uint64_t t = 0; t < 14; ++t) step(t);
    auto const saved = schedule.export_state(), states = exchange.export_state();
    auto before = comm.left();
    step(14);
    comm.fail(before - comm.left() - 1, support::fault::before);  // the last call of a step counts the votes
    CHECK_THROWS_AS(step(15), support::lost_call);
    CHECK_FALSE(exchange.has_failed());
    CHECK_THROWS_WITH_AS(schedule.export_state(),
                         "pith::gradiveq: export_state() is refused after a step that threw: call import_state() first",
                         std::invalid_argument);
    CHECK_THROWS_AS(step(15), std::invalid_argument);
    schedule.import_state(saved, states);
    CHECK(schedule.export_state() == saved);
    step(14);
  });
}

TEST_CASE("gradiveq with feedback loses no gradient across phases") {
  auto options = phases;
  options.feedback = true;
  for (unsigned const ranks : {1u, 3u}) {
    on_ranks(ranks, options, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
      auto received = std::vector<double>(elements), made = received;
      auto const take = [&](std::vector<float> const& g) {
        for (std::size_t i = 0; i < elements; ++i) received[i] += static_cast<double>(g[i]);
      };
      for (std::uint64_t t = 0; t < 33; ++t) {
        auto g = gradient(comm.rank(), t);
        rank.schedule.all_reduce_mean(g);
        take(g);
        auto const mean = mean_gradient(ranks, t);
        for (std::size_t i = 0; i < elements; ++i) made[i] += mean[i];
      }
      auto const waiting = std::sqrt(square(minus(made, received)));
      rank.exchange.change(
          std::vector<codec>(tensors.size(), pith::error_feedback(pith::rated(pith::top_k(0.5)).at(1))));
      auto rest = std::vector<float>(elements);
      rank.exchange.all_reduce_mean(rest);
      take(rest);
      CHECK(waiting > 1);
      // 33 steps of some ten roundings of numbers below 64, of each of the ranks' three.
      auto const bound = 33 * 10 * ranks * 64 * 0x1p-24;
      for (std::size_t i = 0; i < elements; ++i) CHECK(std::abs(received[i] - made[i]) <= bound);
    });
  }
}

TEST_CASE("the compressed phase can sum ternary levels of components, and all ranks receive the same mean") {
  auto options = phases;
  options.feedback = true;
  auto const ternary = [](auto basis) { return pith::pca(basis) | pith::summed_terngrad(); };
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto exchange = exchange_of<float>(pith::seq, comm, tensors, codec(pith::identity()));
    auto schedule = pith::gradiveq(pith::seq, comm, exchange, convolutions, options, ternary);
    for (std::uint64_t t = 0; t < 22; ++t) {
      CHECK(schedule.phase() == phase_at(t));
      auto const is_compressed = schedule.phase() == gradiveq_phase::compressed;
      auto g = gradient(comm.rank(), t);
      schedule.all_reduce_mean(g);
      if (is_compressed && t < 21) {
        auto const& of = exchange.codecs()[1];
        CHECK(of.name().starts_with("ef(pca("));
        CHECK(of.name().ends_with("|summed_terngrad,unverified)"));
        CHECK(exchange.traffic().gathered == 0);
        CHECK(schedule.loss() > 0);
      }
      auto largest = g;
      comm.all_reduce(pith::seq, pith::span<float>(largest), pith::reduction::max).wait(pith::seq);
      CHECK(largest == g);
    }
  });
}

TEST_CASE("means that are no numbers are no samples, and a tensor without samples goes on by qsgd") {
  on_ranks(2, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    for (std::uint64_t t = 0; t < 12; ++t) {
      auto g = gradient(comm.rank(), t);
      if (comm.rank() == 1) g[120] = static_cast<float>(not_a_number);
      if (comm.rank() == 1 && t == 5) g[10] = static_cast<float>(infinity);
      rank.schedule.all_reduce_mean(g);
    }
    CHECK(rank.schedule.phase() == gradiveq_phase::compressed);
    CHECK(rank.exchange.codecs()[1].name().starts_with("pca("));
    CHECK(rank.exchange.codecs()[2].name().starts_with("qsgd<4>"));
    for (auto const v : rank.schedule.basis(0)->mean()) CHECK(std::isfinite(v));
  });
}

TEST_CASE("all ranks throw if a fit fails on rank 0") {
  // The squares of the samples are below the largest double, but their sum, an eigenvalue, is not.
  auto options = phases;
  options.warm_up = 0;
  options.samples = 20;
  on_ranks<double>(2, options, [&](rank_of<double>& rank, pith::thread_communicator& comm) {
    auto const run = [&] {
      for (std::uint64_t t = 0; t < 20; ++t) {
        auto g = std::vector<double>(elements);
        for (std::size_t i = 0; i < elements; ++i) g[i] = (t + i) % 2 == 0 ? 5e153 : -5e153;
        rank.schedule.all_reduce_mean(g);
      }
    };
    if (comm.rank() == 0) {
      CHECK_THROWS_WITH_AS(run(), "pith::pca_basis::fit: samples must have finite squares", std::invalid_argument);
    } else {
      CHECK_THROWS_WITH_AS(run(), "pith::gradiveq: rank 0 could not fit its bases: see the error on rank 0",
                           pith::communication_error);
    }
    CHECK(rank.schedule.phase() == gradiveq_phase::sampling);
    CHECK(rank.schedule.steps() == 0);
    rank.schedule.import_state(rank.schedule.export_state());
    for (std::uint64_t t = 0; t < 20; ++t) {
      auto g = gradient<double>(comm.rank(), t);
      rank.schedule.all_reduce_mean(g);
    }
    CHECK(rank.schedule.phase() == gradiveq_phase::compressed);
  });
}

TEST_CASE("ranks with other settings or a wrong convolution make no schedule, on any rank") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto exchange = exchange_of<float>(pith::seq, comm, tensors, codec(pith::identity()));
    auto const make = [&](std::vector<pith::gradiveq_tensor> const& c, pith::gradiveq_options const& o) {
      return schedule_of<float>(pith::seq, comm, exchange, c, o);
    };
    auto wrong = convolutions;
    if (comm.rank() == 1) wrong[0].conv.filters = 5;
    if (comm.rank() == 0) CHECK_THROWS_AS(make(wrong, phases), pith::agreement_error);
    if (comm.rank() == 1) CHECK_THROWS_AS(make(wrong, phases), std::invalid_argument);
    auto other = phases;
    if (comm.rank() == 1) other.worse = 3;
    CHECK_THROWS_AS(make(convolutions, other), pith::agreement_error);
    make(convolutions, phases);
  });
}

TEST_CASE("a rank without a gradient has an infinite loss, and no vote") {
  on_ranks(2, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    for (std::uint64_t t = 0; t < 16; ++t) {
      auto g = gradient(comm.rank(), t, t >= 15 && comm.rank() == 0 ? 800 : 700);
      if (t >= 12 && comm.rank() == 1) g.assign(g.size(), 0);
      rank.schedule.all_reduce_mean(g);
      if (t >= 12 && comm.rank() == 1) CHECK(rank.schedule.loss() == HUGE_VAL);
    }
    CHECK(rank.schedule.phase() == gradiveq_phase::compressed);
  });
}

TEST_CASE("weights change neither the projection nor the mean that the decoder adds") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    using In = pith::bfloat16;
    auto const plain = pith::any_codec<In, pith::seq_executor>(pith::identity());
    auto exchange = exchange_of<In>(pith::seq, comm, tensors, plain, {.is_weighted = true});
    auto schedule = schedule_of<In>(pith::seq, comm, exchange, convolutions, phases);
    for (std::uint64_t t = 0; t < 11; ++t) {
      auto g = gradient<In>(comm.rank(), t);
      schedule.all_reduce_mean(g, comm.rank() == 0 ? 1 : 3);
      if (t < 10) continue;
      auto mean = part(widen(gradient<In>(0, t)), 4, 108);
      auto const other = part(widen(gradient<In>(1, t)), 4, 108);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = (mean[i] + 3 * other[i]) / 4;
      auto const expected = projected(*schedule.basis(0), mean), got = part(widen(g), 4, 108);
      // Weighted gradients, at most 16, are rounded by 16 2^-9 each, so 108 errors have a norm of at most 11 times this. A
      // projection does not increase the norm, and the decoded values are rounded, too.
      CHECK(std::sqrt(square(minus(expected, got))) <= 22 * 16 * 0x1p-9);
    }
  });
}

TEST_CASE("a state with numbers that a schedule never saves is refused") {
  on_ranks(1, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    auto const refuses = [&](std::size_t at, auto value) {
      auto const saved = rank.schedule.export_state();
      auto const [words, bytes] = pith::detail::open_states("test", pith::span<std::byte const>(saved));
      auto forged = std::vector<std::byte>(bytes.begin(), bytes.end());
      std::memcpy(forged.data() + at, &value, sizeof value);
      CHECK_THROWS_AS(rank.schedule.import_state(pith::detail::save_states(std::string(words), forged)),
                      std::invalid_argument);
    };
    for (std::uint64_t t = 0; t < 12; ++t) {
      if (t == 3) refuses(9, 1.0);                                            // a sum of losses in a sampling phase
      if (t == 3) refuses(25 + 8 + 8 + 8, static_cast<float>(not_a_number));  // a sample
      auto g = gradient(comm.rank(), t);
      rank.schedule.all_reduce_mean(g);
    }
    refuses(9, not_a_number);
    refuses(9, -1.0);
    refuses(17, std::uint64_t{3});  // losses in two steps
    refuses(17, std::uint64_t{1} << 63);
  });
}

TEST_CASE_TEMPLATE("one rank, any type, no warm-up and slices as usual: types are deduced", In, double, pith::half,
                   pith::bfloat16) {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<In>(pith::seq, comm, tensors, pith::identity());
  auto schedule = pith::gradiveq(pith::seq, comm, exchange, {{1, {4, 3, 3, 3}}, {2, {5, 10, 1, 3}}},
                                 {.warm_up = 0, .samples = 5, .compressed = 3, .first_losses = 2});
  for (std::uint64_t t = 0; t < 8; ++t) {
    auto g = gradient<In>(0, t);
    schedule.all_reduce_mean(g);
    for (auto const v : g) CHECK(pith::is_finite(v));
    CHECK(schedule.phase() == (t < 4 || t == 7 ? gradiveq_phase::sampling : gradiveq_phase::compressed));
  }
  CHECK(schedule.basis(0)->slice() == 108);
  CHECK(schedule.basis(1)->slice() == 150);
}

TEST_CASE("kernels, options and states that cannot be are refused") {
  pith::run_ranks(1, [&](pith::thread_communicator comm) {
    auto exchange = exchange_of<float>(pith::seq, comm, tensors, codec(pith::identity()));
    auto const make = [&](std::vector<pith::gradiveq_tensor> const& c, pith::gradiveq_options const& o = phases) {
      return schedule_of<float>(pith::seq, comm, exchange, c, o);
    };
    CHECK_THROWS_WITH_AS(make({{1, {4, 4, 3, 3}}}),
                         "pith::gradiveq: conv of tensor \"conv1\" must have 108 elements, got 144",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(make({{4, {4, 4, 3, 3}}}), "pith::gradiveq: tensor must be below 4, got 4",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(make({{1, {4, 3, 3, 3}}, {1, {4, 3, 3, 3}}}),
                         "pith::gradiveq: each tensor must be listed once, got tensor 1 twice", std::invalid_argument);
    CHECK_THROWS_WITH_AS(make(convolutions, {.samples = 1}), "pith::gradiveq: samples must be at least 2, got 1",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(make(convolutions, {.compressed = 3, .first_losses = 2, .loss_every = 0}),
                         "pith::gradiveq: compressed, first_losses and loss_every must be at least 1, got 3, 2 and 0",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(make(convolutions, {.compressed = 20}),
                         "pith::gradiveq: first_losses must be at most 19, the losses before the last step of a "
                         "compressed phase, got 20",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(make({{1, {4, 3, 3, 3}, 109}}),
                         "pith::gradiveq: slice of tensor \"conv1\" must be at most 108, got 109",
                         std::invalid_argument);
    CHECK_THROWS_AS(make(convolutions, {.basis = {.lambda = 1}}), std::invalid_argument);
    CHECK_THROWS_AS(make(convolutions, {.worse = 0}), std::invalid_argument);
    auto schedule = make(convolutions);
    CHECK_THROWS_WITH_AS(schedule.begin(pith::span<float>()),
                         "pith::gradient_exchange::begin: gradients must have 322 elements, got 0",
                         std::invalid_argument);
    auto const saved = schedule.export_state();
    for (std::size_t size = 0; size < saved.size(); size += 3) {
      CHECK_THROWS_AS(schedule.import_state(pith::span<std::byte const>(saved.data(), size)), std::invalid_argument);
    }
    for (std::size_t at = 0; at < saved.size(); ++at) {
      auto damaged = saved;
      damaged[at] ^= std::byte{4};
      CHECK_THROWS_AS(schedule.import_state(damaged), std::invalid_argument);
    }
    auto const other = make({convolutions[0]});
    CHECK_THROWS_WITH_AS(schedule.import_state(other.export_state()),
                         "pith::gradiveq::import_state: the state must also be of convolution of tensor 2 of 150 in 5 "
                         "filters of 10 x 3 by 4 slices of 40, got one that ends before this line",
                         std::invalid_argument);
    schedule.import_state(saved);
  });
}

TEST_CASE("a refused call of a schedule changes nothing, in any phase, between steps and during one") {
  using schedule = schedule_of<float>;
  auto few = std::vector<float>(7);
  auto const refusals = std::vector<std::pair<bool, std::function<void(schedule&, std::vector<float>&)>>>{
      {false, [&](schedule& s, auto&) { s.begin(few); }},
      {false, [](schedule& s, auto&) { s.import_state({}); }},
      {false,
       [](schedule& s, auto&) {
         auto damaged = s.export_state();
         damaged.back() ^= std::byte{1};
         s.import_state(damaged);
       }},
      {true, [](schedule& s, auto& g) { s.begin(g); }},
      {true, [](schedule& s, auto&) { s.import_state(s.export_state()); }},
  };
  for (std::uint64_t const stop : {0u, 3u, 9u, 12u, 15u, 21u}) {
    CAPTURE(stop);
    on_ranks(2, phases, [&](rank_of<float>& tried, pith::thread_communicator& comm) {
      auto expected = rank_of<float>(comm, phases);
      auto const step = [&](rank_of<float>& r, std::uint64_t t, bool tries) {
        auto g = gradient(comm.rank(), t);
        auto const refuse = [&](bool in_step) {
          for (auto const& [when, call] : refusals)
            if (tries && when <= in_step) CHECK_THROWS_AS(call(r.schedule, g), std::invalid_argument);
        };
        refuse(false);
        r.schedule.begin(g);
        refuse(true);
        r.schedule.wait();
        return g;
      };
      for (std::uint64_t t = 0; t < stop + 4; ++t) CHECK(step(tried, t, t >= stop) == step(expected, t, false));
      CHECK(tried.schedule.export_state() == expected.schedule.export_state());
      CHECK(tried.exchange.export_state() == expected.exchange.export_state());
    });
  }
}

TEST_CASE("wait() is refused outside of a step that the schedule has begun, and changes nothing") {
  on_ranks(2, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    auto const before = rank.schedule.export_state();
    auto g = gradient(comm.rank(), 0);
    auto const refuses = [&] { CHECK_THROWS_AS(rank.schedule.wait(), std::invalid_argument); };
    refuses();
    rank.exchange.begin(g);
    refuses();
    rank.exchange.wait();
    rank.schedule.begin(g);
    rank.exchange.skip();
    refuses();
    rank.exchange.begin(g);
    CHECK_THROWS_WITH_AS(rank.schedule.wait(),
                         "pith::gradiveq: wait() must follow begin() of the schedule: this step was begun by "
                         "gradient_exchange::begin()",
                         std::invalid_argument);
    rank.exchange.wait();
    rank.schedule.begin(g);
    rank.schedule.skip();
    CHECK(rank.schedule.export_state() == before);
  });
}

TEST_CASE("no rank changes its state when the state of one rank is refused") {
  on_ranks(2, phases, [&](rank_of<float>& rank, pith::thread_communicator& comm) {
    auto const before = rank.schedule.export_state();
    auto damaged = before;
    damaged.back() ^= std::byte{1};
    auto const import = [&] { rank.schedule.import_state(comm.rank() == 0 ? before : damaged); };
    if (comm.rank() == 0) CHECK_THROWS_AS(import(), pith::agreement_error);
    if (comm.rank() == 1) CHECK_THROWS_AS(import(), std::invalid_argument);
    CHECK(rank.schedule.export_state() == before);
  });
}
