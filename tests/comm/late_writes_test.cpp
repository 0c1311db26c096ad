// tests/comm/late_writes_test.cpp — the memory of calls that throw while the transport may still write to it.
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

struct late_request {
  bool fails;

  template <class E>
  void wait(E const&) {
    if (fails) throw pith::communication_error("late");
  }
  template <class E>
  bool test(E const& exec) {
    return wait(exec), true;
  }
};

/// Rank 0 of 2. The first `*left` swaps succeed, and the next swap fails. Its transport may then still write to `*posted`,
/// as MPI may.
struct late_communicator {
  int* left;
  pith::span<std::byte>* posted;

  unsigned rank() const { return 0; }
  unsigned size() const { return 2; }
  template <pith::executor E>
  late_request send_recv(E const&, pith::span<std::byte const>, unsigned, pith::span<std::byte> theirs, unsigned) {
    *posted = theirs;
    return {(*left)-- == 0};
  }
};

using late_sums = pith::reproducible_sums<pith::pairwise<late_communicator>>;

/// Checks that `call` throws if the swap after `swaps` others fails. The bytes of rank 1 then arrive, and must change no
/// other memory.
void run_late(int swaps, auto const& call) {
  auto posted = pith::span<std::byte>();
  auto comm = late_sums(late_communicator{&swaps, &posted});
  CHECK_THROWS_AS(call(comm), pith::communication_error);
  auto const others = std::vector(300, std::vector<std::byte>(posted.size(), std::byte{42}));  // in any freed memory
  REQUIRE(posted.size() > 0);
  std::fill(posted.begin(), posted.end(), std::byte{7});
  for (auto const& other : others) CHECK(other == std::vector<std::byte>(posted.size(), std::byte{42}));
}

}  // namespace

TEST_CASE("bytes that arrive after a reduction has thrown change no other memory") {
  auto x = std::vector<float>(1000), part = std::vector<float>(500);
  auto const all_reduce = [&](auto& comm) {
    return comm.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum);
  };
  run_late(0, all_reduce);  // in the all-to-all
  run_late(1, all_reduce);  // in the all-gather
  run_late(0, [&](auto& comm) {
    return comm.reduce_scatter(pith::seq, pith::span<float const>(x), pith::span<float>(part), pith::reduction::sum);
  });
}
