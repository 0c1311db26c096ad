// tests/reports/mixed_calls_test.cpp — one rank makes another call than the other ranks, a call for another exchange,
// or calls from two threads. Every rank throws an error that contains the calls. A report of this kind is
// horovod/horovod#2420.
#include <pith/adaptor/identity.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

using comm_type = pith::thread_communicator;
using exchange_type = pith::gradient_exchange<float, pith::seq_executor, comm_type>;
using specs = std::vector<pith::tensor_spec>;

/// Returns the text of each rank's error, which is empty without an error.
template <class F>
std::vector<std::string> errors_of(unsigned ranks, F const& f) {
  auto texts = std::vector<std::string>(ranks);
  pith::run_ranks(ranks,
                  [&](comm_type comm) {
                    try {
                      f(comm);
                    } catch (std::runtime_error const& e) {
                      texts[comm.rank()] = e.what();
                    }
                  },
                  {.timeout = 5s});
  return texts;
}
bool contains(std::string const& text, std::string const& words) { return text.find(words) != std::string::npos; }

template <class T>
pith::span<T> values() {
  thread_local auto own = std::vector<std::byte>(16);
  return {reinterpret_cast<T*>(own.data()), 16 / sizeof(T)};
}
template <class T>
void reduce(comm_type& c, pith::reduction how) {
  c.all_reduce(pith::seq, values<T>(), how);
}
void gather(comm_type& c) {
  auto all = std::vector<std::byte>(16 * c.size());
  c.all_gather(pith::seq, values<std::byte const>(), pith::span<std::byte>(all));
}

struct row {
  std::function<void(comm_type&)> others, odd;
  char const* words;
};

constexpr auto sum = pith::reduction::sum, max = pith::reduction::max;
std::vector<row> const calls = {
    {gather, [](auto& c) { reduce<float>(c, sum); }, "calls all_gather while rank 1 calls all_reduce of float by sum"},
    {[](auto& c) { reduce<float>(c, sum); }, [](auto& c) { reduce<std::int32_t>(c, sum); },
     "calls all_reduce of float by sum while rank 1 calls all_reduce of int32 by sum"},
    {[](auto& c) { reduce<float>(c, sum); }, [](auto& c) { reduce<float>(c, max); },
     "by sum while rank 1 calls all_reduce of float by max"},
    {[](auto& c) { reduce<pith::half>(c, sum); }, [](auto& c) { reduce<pith::bfloat16>(c, sum); },
     "of half by sum while rank 1 calls all_reduce of bfloat16 by sum"},
    {[](auto& c) { c.broadcast(pith::seq, values<std::byte>(), 0); },
     [](auto& c) { c.broadcast(pith::seq, values<std::byte>(), 1); },
     "calls broadcast from rank 0 while rank 1 calls broadcast from rank 1"},
    {gather, [](auto& c) { c.split(0); }, "calls all_gather while rank 1 calls split"},
    {gather,
     [](auto& c) {
       auto theirs = std::vector<std::byte>(16);
       c.send_recv(pith::seq, values<std::byte const>(), 0, pith::span<std::byte>(theirs), 0);
     },
     "calls all_gather while rank 1 calls send_recv"},
};

exchange_type exchange_of(comm_type& comm, specs const& tensors, pith::exchange_options const& o = {}) {
  return {pith::seq, comm, tensors, pith::any_codec<float, pith::seq_executor>(pith::identity()), o};
}
void step(exchange_type& of) {
  auto g = std::vector<float>(of.size(), 1);
  of.all_reduce_mean(g);
}

/// The functions that rank 1 alone calls between steps while the other ranks make a step, and their names in errors.
std::vector<std::pair<std::function<void(exchange_type&)>, char const*>> const alone = {
    {[](auto& e) { e.change(e.codecs()); }, "change() of exchange "},
    {[](auto& e) { e.fit_buckets(); }, "fit_buckets() of exchange "},
    {[](auto& e) {
       auto const s = e.export_state();
       e.import_state(s, e.codecs());
     },
     "import_state() of exchange "},
};

}  // namespace

TEST_CASE("each error contains both calls if one rank makes another call of the same size") {
  for (auto const& r : calls) {
    for (auto const& text : errors_of(3, [&](comm_type& c) { c.rank() == 1 ? r.odd(c) : r.others(c); })) {
      CAPTURE(text);
      CHECK(contains(text, r.words));
    }
  }
}

TEST_CASE("each error contains the function that one rank alone calls between steps") {
  for (auto const& [f, words] : alone) {
    auto const texts = errors_of(3, [&, &f = f](comm_type& c) {
      auto exchange = exchange_of(c, {{"weight", {100}}});
      step(exchange);
      c.rank() == 1 ? f(exchange) : step(exchange);
    });
    for (auto const& text : texts) {
      CAPTURE(text);
      CHECK(contains(text, words));
      CHECK(contains(text, "in transfer 1 of a step of exchange "));
    }
  }
}

TEST_CASE("each error contains the exchange that one rank steps in another order") {
  for (auto const& second : {specs{{"bias", {100}}}, specs{{"weight", {100}}}, specs{{"bias", {50}}, {"gain", {50}}}}) {
    for (auto const verification : {pith::verify::when_built, pith::verify::each_step}) {
      auto const texts = errors_of(3, [&](comm_type& c) {
        auto const options = pith::exchange_options{.verification = verification};
        auto a = exchange_of(c, {{"weight", {100}}}, options), b = exchange_of(c, second, options);
        c.rank() == 1 ? (step(b), step(a)) : (step(a), step(b));
      });
      for (auto const& text : texts) {
        CAPTURE(text);
        CHECK(contains(text, verification == pith::verify::each_step ? "the first is " + second[0].name
                                                                     : "in transfer 1 of a step of exchange "));
        CHECK(contains(text, "rank 1"));
      }
    }
  }
}

TEST_CASE("each error contains the rank that skips a step alone") {
  auto const texts = errors_of(3, [&](comm_type& c) {
    auto exchange = exchange_of(c, {{"weight", {100}}}, {.verification = pith::verify::each_step});
    auto g = std::vector<float>(100, 1);
    step(exchange);
    exchange.begin(g);
    if (c.rank() == 2) exchange.skip(), exchange.begin(g);
    exchange.wait();
  });
  for (auto const& text : texts)
    CHECK(text ==
          "pith::gradient_exchange: rank 2 differs from rank 0 in the number of begun steps: 3, not 2: all ranks must "
          "skip() the same steps");
}

TEST_CASE("ranks that skip the same steps, or import states, go on with verify::each_step") {
  auto const texts = errors_of(2, [&](comm_type& c) {
    auto exchange = exchange_of(c, {{"weight", {100}}}, {.verification = pith::verify::each_step});
    auto g = std::vector<float>(100, 1);
    exchange.begin(g);
    exchange.skip();
    step(exchange);
    if (c.rank() == 1) exchange.begin(g), exchange.skip();
    exchange.import_state(exchange.export_state());
    step(exchange);
  });
  for (auto const& text : texts) CHECK(text.empty());
}

TEST_CASE("two exchanges that step at the same time on one communicator throw only its errors") {
  for (int trial = 0; trial < 20; ++trial) {
    auto const texts = errors_of(2, [&](comm_type& c) {
      auto g = std::vector<float>(200, 1), h = std::vector<float>(100, 1);
      auto a = exchange_of(c, {{"weight", {100}}, {"bias", {100}}}, {.bucket_bytes = 0});
      auto b = exchange_of(c, {{"head", {100}}});
      a.begin(g), b.begin(h);
      a.ready(1), b.ready(0);
      try {
        b.wait();
      } catch (pith::communication_error const&) {
        a.abandon();
        throw;
      }
      a.wait();
    });
    for (auto const& text : texts) {
      CAPTURE(text);
      CHECK((text.empty() || contains(text, "thread_communicator: ")));
    }
  }
}

TEST_CASE("a call during a call of another thread of the same rank throws on all ranks") {
  auto refused = std::latch(1);
  auto refusal = std::string();
  auto const texts = errors_of(2, [&](comm_type& c) {
    auto const call = [&] {
      try {
        gather(c);
      } catch (pith::communication_error const& e) {
        if (!contains(e.what(), "of another thread")) throw;
        refusal = e.what();
        refused.count_down();
      }
    };
    if (c.rank() == 1) return refused.wait(), gather(c);
    auto const other = std::jthread([&] {
      try {
        call();
      } catch (pith::communication_error const&) {
      }  // the group has ended
    });
    call();
  });
  CHECK(refusal ==
        "pith::thread_communicator: all_gather was called outside of exchanges during a call of another thread: "
        "exchanges that step at the same time need one communicator each, for example split(0)");
  CHECK(texts[1] == "pith::thread_communicator: all_gather cannot end: rank 0 returned or threw: see its error");
}
