// tests/comm/threads_test.cpp — ranks that are threads, and a group of one.
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/shaped.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>

#include <comm/conformance.hpp>

#include "../examples/own/barrier_communicator.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static_assert(pith::calls_of<pith::pairwise<pith::thread_communicator>, pith::seq_executor> ==
              pith::optional_calls::all());

TEST_CASE("a group of one conforms") {
  auto comm = pith::self_communicator();
  conformance::check(pith::seq, comm);
  auto erased = pith::any_communicator(comm);
  conformance::check(pith::seq, erased);
}

TEST_CASE("threads conform for 1 to 8 ranks") {
  for (unsigned ranks = 1; ranks <= 8; ++ranks) {
    CAPTURE(ranks);
    std::atomic<unsigned> ran = 0;
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      conformance::check(pith::seq, comm);
      auto pairs = pith::pairwise<pith::thread_communicator>(comm);
      conformance::check(pith::seq, pairs);
      auto erased = pith::any_communicator(comm);
      conformance::check(pith::seq, erased);
      ++ran;
    });
    CHECK(ran == ranks);
  }
}

namespace {

/// Only the collectives that an exchange needs.
struct needed_collectives {
  pith::thread_communicator& comm;

  unsigned rank() const { return comm.rank(); }
  unsigned size() const { return comm.size(); }
  template <pith::executor E>
  auto all_gather(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    return comm.all_gather(exec, mine, all);
  }
  template <pith::executor E, class T>
  auto all_reduce(E const& exec, pith::span<T> x, pith::reduction how) {
    return comm.all_reduce(exec, x, how);
  }
};

/// Also the collective that pairwise swaps need.
struct swapping_collectives : needed_collectives {
  template <pith::executor E>
  auto send_recv(E const& exec, pith::span_on<E, std::byte const> mine, unsigned to, pith::span_on<E, std::byte> theirs,
                 unsigned from) {
    return comm.send_recv(exec, mine, to, theirs, from);
  }
};
using swapping_pairs = pith::pairwise<swapping_collectives>;
static_assert(pith::communicator<swapping_pairs, pith::seq_executor> &&
              pith::calls_of<swapping_pairs, pith::seq_executor> ==
                  pith::optional_calls{.all_to_all = true, .send_recv = true});

}  // namespace

TEST_CASE("pairwise swaps of a communicator that has no other optional call") {
  pith::run_ranks(3, [](pith::thread_communicator comm) {
    auto pairs = swapping_pairs(swapping_collectives{comm});
    conformance::check(pith::seq, pairs);
  });
}

TEST_CASE("an erased communicator refuses the collectives that its communicator lacks") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto needed = needed_collectives{comm};
    auto erased = pith::any_communicator(needed);
    conformance::gathers(pith::seq, erased, 1001);
    conformance::reduces<float>(pith::seq, erased, 1001);
    auto bytes = std::vector<std::byte>(4);
    auto const x = pith::span<std::byte>(bytes);
    CHECK_THROWS_WITH_AS(erased.all_to_all(pith::seq, x, x),
                         "pith::any_communicator: the communicator must have all_to_all", std::logic_error);
    CHECK_THROWS_WITH_AS(erased.broadcast(pith::seq, x, 0),
                         "pith::any_communicator: the communicator must have broadcast", std::logic_error);
    CHECK_THROWS_WITH_AS(erased.split(0), "pith::any_communicator: the communicator must have split", std::logic_error);
  });
}

TEST_CASE("an adapter of an erased communicator lists the calls of both") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto needed = needed_collectives{comm};
    auto swapping = swapping_collectives{{comm}};
    using erased = pith::any_communicator;
    CHECK(pith::shaped<erased>(pith::link_shape(), needed).optional_calls() == pith::optional_calls());
    CHECK(pith::pairwise<erased>(swapping).optional_calls() ==
          pith::optional_calls{.all_to_all = true, .send_recv = true});
    CHECK(pith::reproducible_sums<erased>(swapping).optional_calls() ==
          pith::optional_calls{.send_recv = true, .reduce_scatter = true});
  });
}

TEST_CASE("a user's communicator conforms as far as an exchange needs") {
  for (unsigned ranks = 1; ranks <= 4; ++ranks) {
    auto place = meeting_place(ranks);
    pith::run_ranks(ranks, [&](pith::thread_communicator const& rank) {
      auto comm = barrier_communicator(place, rank.rank());
      conformance::check(pith::seq, comm);
    });
  }
}

TEST_CASE("a user's communicator conforms on threads and without its type") {
  auto place = meeting_place(3);
  pith::run_ranks(3, [&](pith::thread_communicator const& rank) {
    auto pool = pith::thread_pool(2);
    auto comm = barrier_communicator(place, rank.rank());
    conformance::check(pith::par(pool), comm);
    auto erased = pith::any_communicator(comm);
    conformance::gathers(pith::seq, erased, 1001);
    conformance::reduces<float>(pith::seq, erased, 1001);
  });
}

TEST_CASE("threads conform on an executor of threads") {
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto pool = pith::thread_pool(2);
    conformance::check(pith::par(pool), comm);
  });
}

TEST_CASE("a rank that throws ends the group with its own error") {
  auto const run = [] {
    pith::run_ranks(3, [](pith::thread_communicator comm) {
      if (comm.rank() == 1) throw std::runtime_error("out of paper");
      conformance::check(pith::seq, comm);
    });
  };
  CHECK_THROWS_WITH_AS(run(), "out of paper", std::runtime_error);
}

TEST_CASE("a rank that returns early does not leave the others waiting") {
  auto const run = [] {
    pith::run_ranks(3, [](pith::thread_communicator comm) {
      if (comm.rank() != 2) conformance::gathers(pith::seq, comm, 5);
    });
  };
  CHECK_THROWS_WITH_AS(run(),
                       "pith::thread_communicator: all_gather cannot end: rank 2 returned or threw: see its error",
                       pith::communication_error);
}

TEST_CASE("a group that a rank left stays broken however often the others try") {
  std::atomic<int> refused = 0;
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    if (comm.rank() == 2) return;
    for (int attempt = 0; attempt < 4; ++attempt) {
      try {
        conformance::gathers(pith::seq, comm, 5);
      } catch (pith::communication_error const&) {
        ++refused;
      }
    }
  });
  CHECK(refused == 8);
}

TEST_CASE("a rank that makes no call is an error of the others by the timeout, and of itself when it comes") {
  auto given_up = std::latch(2);
  auto heard = std::vector<std::string>(3);
  auto const run = [&](pith::thread_communicator comm) {
    if (comm.rank() == 1) given_up.wait();
    try {
      conformance::gathers(pith::seq, comm, 5);
    } catch (pith::communication_error const& error) {
      heard[comm.rank()] = error.what();
    }
    if (comm.rank() != 1) given_up.count_down();
  };
  auto const begin = std::chrono::steady_clock::now();
  pith::run_ranks(3, run, {.timeout = 1s});
  CHECK(std::chrono::steady_clock::now() - begin >= 1s);
  for (auto const& text : heard)
    CHECK(text ==
          "pith::thread_communicator: all_gather did not end within 1 s: rank 1 has run out of batches, or is gone or "
          "stuck: give all ranks equally many batches");
}

TEST_CASE("the timeout error of a split communicator names all ranks that make no call") {
  auto given_up = std::latch(1);
  auto const run = [&](pith::thread_communicator comm) {
    auto half = comm.split(comm.rank() % 2);
    if (comm.rank() == 2 || comm.rank() == 4) return given_up.wait();
    if (comm.rank() % 2 == 1) return;
    CHECK_THROWS_WITH_AS(conformance::gathers(pith::seq, half, 5),
                         "pith::thread_communicator: all_gather did not end within 1 s: ranks 1, 2 have run out of "
                         "batches, or are gone or stuck: give all ranks equally many batches",
                         pith::communication_error);
    given_up.count_down();
  };
  pith::run_ranks(6, run, {.timeout = 1s});
}

namespace {

/// Copies late, so that one rank reads another one's memory for longer than the timeout.
struct late_executor : pith::seq_executor {
  std::chrono::steady_clock::time_point end;

  void copy(void* to, void const* from, std::size_t bytes) const {
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    pith::seq.copy(to, from, bytes);
  }
};

}  // namespace

TEST_CASE("ranks that are in a call wait for one that still reads their memory, whatever the timeout") {
  auto const run = [](pith::thread_communicator comm) {
    auto exec = late_executor();
    if (comm.rank() == 1) exec.end = std::chrono::steady_clock::now() + 1s;
    conformance::gathers(exec, comm, 5);
  };
  CHECK_NOTHROW(pith::run_ranks(3, run, {.timeout = 500ms}));
}

TEST_CASE("a timeout must be above 0") {
  CHECK_THROWS_WITH_AS(pith::run_ranks(2, [](pith::thread_communicator) {}, {.timeout = 0s}),
                       "pith::run_ranks: timeout must be above 0 s, got 0 s", std::invalid_argument);
}

TEST_CASE("a rank that ends leaves the parts that it belongs to, and no others") {
  std::atomic<int> left = 0, done = 0;
  pith::run_ranks(4, [&](pith::thread_communicator comm) {
    auto half = comm.split(comm.rank() / 2);
    if (comm.rank() == 0) return;
    try {
      for (int i = 0; i < 50; ++i) conformance::transfers(pith::seq, half, 3);
      ++done;
    } catch (pith::communication_error const&) {
      ++left;
    }
  });
  CHECK(left == 1);
  CHECK(done == 2);
}

namespace {

using bytes = std::vector<std::byte>;

/// Calls f(rank's communicator) on three threads, and says what the first of them threw.
template <class Error, class F>
std::string thrown(F const& f) {
  try {
    pith::run_ranks(3, [&](pith::thread_communicator comm) { f(comm); });
  } catch (Error const& e) {
    return e.what();
  }
  return "nothing";
}

/// Calls of rank 1 that do not fit those of the others.
template <class F>
std::string disagreement(F const& f) {
  return thrown<pith::communication_error>(f);
}
/// Without the likely causes, which follow the sizes.
template <class F>
std::string difference(F const& f) {
  auto const text = disagreement(f);
  return text.substr(0, text.find(": one of these ranks"));
}

template <class Comm>
void gather(Comm& comm, std::size_t n, std::size_t room) {
  auto const mine = bytes(n);
  auto all = bytes(room);
  comm.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all));
}
template <class Comm>
void exchange_pieces(Comm& comm, std::size_t n, std::size_t room) {
  auto const mine = bytes(n);
  auto all = bytes(room);
  comm.all_to_all(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all));
}
template <class Comm>
void swap(Comm& comm, std::size_t n, unsigned to, std::size_t room, unsigned from) {
  auto const mine = bytes(n);
  auto theirs = bytes(room);
  comm.send_recv(pith::seq, pith::span<std::byte const>(mine), to, pith::span<std::byte>(theirs), from);
}
template <class Comm>
void sum(Comm& comm, std::size_t n) {
  auto x = std::vector<float>(n);
  comm.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum);
}
template <class Comm>
void scatter(Comm& comm, std::size_t n, std::size_t part) {
  auto const mine = std::vector<float>(n);
  auto sums = std::vector<float>(part);
  comm.reduce_scatter(pith::seq, pith::span<float const>(mine), pith::span<float>(sums), pith::reduction::sum);
}
template <class Comm>
void tell(Comm& comm, std::size_t n, unsigned root) {
  auto x = bytes(n);
  comm.broadcast(pith::seq, pith::span<std::byte>(x), root);
}

}  // namespace

TEST_CASE("calls with different sizes throw an error that names the ranks and the sizes") {
  using comm = pith::thread_communicator;
  auto const odd = [](comm const& c) { return c.rank() == 1 ? std::size_t{4} : std::size_t{8}; };
  CHECK(difference([&](comm c) { gather(c, odd(c), 3 * odd(c)); }) ==
        "pith::thread_communicator: all_gather of rank 0 must receive 8 bytes from rank 1, got 4");
  CHECK(difference([&](comm c) { exchange_pieces(c, 3 * odd(c), 3 * odd(c)); }) ==
        "pith::thread_communicator: all_to_all of rank 0 must receive 24 bytes from rank 1, got 12");
  CHECK(difference([&](comm c) { swap(c, odd(c), (c.rank() + 1) % 3, 8, (c.rank() + 2) % 3); }) ==
        "pith::thread_communicator: send_recv of rank 2 must receive 8 bytes from rank 1, got 4");
  CHECK(difference([&](comm c) {
          c.rank() == 0 ? swap(c, 8, 1, 8, 2) : c.rank() == 1 ? swap(c, 8, 2, 8, 0) : swap(c, 8, 1, 8, 1);
        }) == "pith::thread_communicator: send_recv of rank 0 must receive 8 bytes from rank 2, got 0");
  CHECK(difference([&](comm c) { sum(c, odd(c)); }) ==
        "pith::thread_communicator: all_reduce of rank 0 must receive 32 bytes from rank 1, got 16");
  CHECK(difference([&](comm c) { scatter(c, 3 * odd(c), odd(c)); }) ==
        "pith::thread_communicator: reduce_scatter of rank 0 must receive 96 bytes from rank 1, got 48");
  CHECK(difference([&](comm c) { tell(c, odd(c), 0); }) ==
        "pith::thread_communicator: broadcast of rank 1 must receive 4 bytes from rank 0, got 8");
}

TEST_CASE("mismatched calls throw on all ranks, and the ranks can make further calls together") {
  std::atomic<int> went_on = 0;
  CHECK(disagreement([&](pith::thread_communicator c) {
          CHECK_THROWS_AS(c.rank() == 1 ? tell(c, 8, 0) : exchange_pieces(c, 24, 24), pith::communication_error);
          conformance::transfers(pith::seq, c, 5);
          ++went_on;
          c.rank() == 1 ? tell(c, 8, 0) : gather(c, 8, 24);
        }) ==
        "pith::thread_communicator: rank 0 calls all_gather while rank 1 calls broadcast from rank 0: all ranks must "
        "make the same calls in the same order");
  CHECK(went_on == 3);
}

TEST_CASE("bad arguments are refused in words") {
  using comm = pith::thread_communicator;
  auto const refusal = [](auto const& f) { return thrown<std::invalid_argument>(f); };
  CHECK_THROWS_WITH_AS(pith::run_ranks(0, [](comm) {}), "pith::run_ranks: ranks must be in [1, 65534], got 0",
                       std::invalid_argument);
  CHECK(refusal([](comm c) { gather(c, 8, 23); }) ==
        "pith::thread_communicator::all_gather: 'all' must have 24 bytes, got 23");
  CHECK(refusal([](comm c) { exchange_pieces(c, 8, 8); }) ==
        "pith::thread_communicator::all_to_all: 'mine' must have a multiple of 3 bytes, got 8");
  CHECK(refusal([](comm c) { exchange_pieces(c, 9, 8); }) ==
        "pith::thread_communicator::all_to_all: 'all' must have 9 bytes, got 8");
  CHECK(refusal([](comm c) { swap(c, 8, 3, 8, 1); }) ==
        "pith::thread_communicator::send_recv: 'to' must be below 3, got 3");
  CHECK(refusal([](comm c) { swap(c, 8, c.rank(), 4, c.rank()); }) ==
        "pith::thread_communicator::send_recv: 'theirs' must have 8 bytes in a transfer to itself, got 4");
  CHECK(refusal([](comm c) { swap(c, 8, c.rank(), 8, (c.rank() + 1) % 3); }) ==
        "pith::thread_communicator::send_recv: 'to' and 'from' must both be this rank, 0, or neither, got 0 and 1");
  CHECK(refusal([](comm c) { scatter(c, 7, 2); }) ==
        "pith::thread_communicator::reduce_scatter: 'mine' must have 6 elements, got 7");
  CHECK(refusal([](comm c) { tell(c, 8, 3); }) ==
        "pith::thread_communicator::broadcast: 'root' must be below 3, got 3");
  auto self = pith::self_communicator();
  CHECK_THROWS_WITH_AS(gather(self, 8, 7), "pith::self_communicator::all_gather: 'all' must have 8 bytes, got 7",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(swap(self, 8, 1, 8, 0), "pith::self_communicator::send_recv: 'to' must be below 1, got 1",
                       std::invalid_argument);
}
