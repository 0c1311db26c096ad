// tests/comm/function_communicator_test.cpp — collectives on one function that sends and receives.
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/function_communicator.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exec/seq.hpp>

#include <comm/conformance.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

static_assert(pith::communicator<pith::function_communicator, pith::seq_executor> &&
              pith::calls_of<pith::function_communicator, pith::seq_executor> ==
                  pith::optional_calls{.all_to_all = true, .send_recv = true, .reduce_scatter = true});

namespace {

/// The transport of an engine: messages between threads, which copies bytes and keeps no size but that of the message.
class mailboxes {
 public:
  void send(unsigned from, unsigned to, pith::span<std::byte const> message) {
    auto const lock = std::lock_guard(mutex_);
    boxes_[{from, to}].emplace_back(message.begin(), message.end());
    arrived_.notify_all();
  }
  void receive(unsigned from, unsigned to, pith::span<std::byte> message) {
    auto lock = std::unique_lock(mutex_);
    auto& box = boxes_[{from, to}];
    arrived_.wait(lock, [&] { return !box.empty(); });
    if (box.front().size() != message.size()) throw pith::communication_error("a message of another size");
    std::copy(box.front().begin(), box.front().end(), message.begin());
    box.pop_front();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<unsigned, unsigned>, std::deque<std::vector<std::byte>>> boxes_;
};

pith::function_communicator on(mailboxes& boxes, unsigned rank, unsigned size) {
  return pith::function_communicator(
      rank, size,
      [&boxes, rank](pith::span<std::byte const> mine, unsigned to, pith::span<std::byte> theirs, unsigned from) {
        CHECK(to != rank);
        CHECK(from != rank);
        boxes.send(rank, to, mine);
        boxes.receive(from, rank, theirs);
      });
}

void never(pith::span<std::byte const>, unsigned, pith::span<std::byte>, unsigned) {}

}  // namespace

TEST_CASE("a function of a transport conforms for 1 to 5 ranks") {
  for (unsigned ranks = 1; ranks <= 5; ++ranks) {
    CAPTURE(ranks);
    auto boxes = mailboxes();
    pith::run_ranks(ranks, [&](pith::thread_communicator place) {
      auto comm = on(boxes, place.rank(), ranks);
      conformance::check(pith::seq, comm);
      auto erased = pith::any_communicator(comm);
      conformance::sends(pith::seq, erased, 5);
      conformance::reduces<pith::bfloat16>(pith::seq, erased, 5);
    });
  }
}

TEST_CASE("the error of the function is the error of the call") {
  auto comm = pith::function_communicator(
      0u, 2u, [](auto, unsigned, auto, unsigned) { throw pith::communication_error("the link is down"); });
  float x[] = {1};
  CHECK_THROWS_WITH_AS(comm.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum), "the link is down",
                       pith::communication_error);
}

TEST_CASE("bad ranks and a missing function are refused") {
  CHECK_THROWS_WITH_AS(pith::function_communicator(0u, 0u, never),
                       "pith::function_communicator: 'size' must be at least 1, got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::function_communicator(2u, 2u, never),
                       "pith::function_communicator: 'rank' must be below 2, got 2", std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::function_communicator(0u, 1u, pith::send_recv_function()),
                       "pith::function_communicator: 'send_recv' must be a function, got none", std::invalid_argument);
  auto comm = pith::send_recv_communicator(0, 2, never);
  CHECK_THROWS_WITH_AS(comm.send_recv(pith::seq, {}, 1, {}, 2),
                       "pith::function_communicator::send_recv: 'from' must be below 2, got 2", std::invalid_argument);
}
