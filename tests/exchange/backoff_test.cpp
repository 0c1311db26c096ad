// tests/exchange/backoff_test.cpp — a thread that waits for a transfer polls it ever more seldom.
#include <pith/adaptor/identity.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/detail/backoff.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using pith::detail::backoff;

namespace {

using clock_type = std::chrono::steady_clock;

/// What a transfer sees of whoever waits for it.
struct polled {
  std::atomic<unsigned> polls = 0;
  std::atomic<bool> has_arrived = false;
  clock_type::time_point first, last;
};

/// Arrives `lasts` after it was first polled.
class slow_request {
 public:
  slow_request(polled& seen, clock_type::duration lasts) : seen_(&seen), lasts_(lasts) {}

  template <class E>
  void wait(E const&) {}
  template <class E>
  bool test(E const&) {
    if (seen_->has_arrived) return true;
    seen_->last = clock_type::now();
    if (seen_->polls++ == 0) seen_->first = seen_->last;
    seen_->has_arrived = seen_->last - seen_->first >= lasts_;
    return seen_->has_arrived;
  }

 private:
  polled* seen_;
  clock_type::duration lasts_;
};

/// A group of one, whose sums take time.
class slow_communicator : public pith::self_communicator {
 public:
  slow_communicator(polled& seen, clock_type::duration lasts) : seen_(&seen), lasts_(lasts) {}

  template <pith::executor E, class T>
  slow_request all_reduce(E const&, pith::span_on<E, T>, pith::reduction) {
    return {*seen_, lasts_};
  }

 private:
  polled* seen_;
  clock_type::duration lasts_;
};

/// The polls that there is time for, each after its nap.
unsigned polls_within(clock_type::duration time) {
  auto naps = backoff();
  unsigned polls = 1;
  for (auto slept = clock_type::duration(naps.next()); slept <= time; slept += naps.next()) ++polls;
  return polls;
}

}  // namespace

TEST_CASE("naps begin short and grow to a bound") {
  auto naps = backoff();
  for (unsigned i = 0; i < backoff::patience; ++i) REQUIRE(naps.next() == backoff::shortest);
  auto last = backoff::shortest;
  for (int i = 0; i < 100; ++i) {
    auto const nap = naps.next();
    REQUIRE((nap > last || nap == backoff::longest));
    REQUIRE(nap <= backoff::longest);
    last = nap;
  }
  CHECK(last == backoff::longest);
}

TEST_CASE("a transfer is polled no more often than the naps allow while no gradient becomes ready") {
  auto seen = polled();
  auto comm = slow_communicator(seen, std::chrono::milliseconds(300));
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"first", {8}}, {"last", {8}}}, pith::identity(),
                                             {.bucket_bytes = 0});
  auto g = std::vector<float>(16, 1);
  exchange.begin(g);
  exchange.ready(1);
  while (!seen.has_arrived) std::this_thread::yield();
  auto const polls = seen.polls.load();
  exchange.wait();
  CHECK(polls <= polls_within(seen.last - seen.first) + 1);  // one more as it leaves
  CHECK(g == std::vector<float>(16, 1));
}
