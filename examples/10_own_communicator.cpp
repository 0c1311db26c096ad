// examples/10_own_communicator.cpp — a user-defined communicator, the smallest for a gradient_exchange.
//
//   the mean of three compressed gradients: 0 0 0 0 0 0 12 14 16 18
//
// The ranks are threads that read each other's memory between two barriers.
#include <pith/comm/communicator.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

/// The address of each rank's memory, and a barrier for all ranks.
struct meeting_place {
  explicit meeting_place(unsigned ranks) : memory(ranks), ranks_here(ranks) {}
  std::vector<void const*> memory;
  std::barrier<> ranks_here;
};

class own_communicator {
 public:
  own_communicator(meeting_place& place, unsigned rank) : place_(place), rank_(rank) {}

  unsigned rank() const { return rank_; }
  unsigned size() const { return static_cast<unsigned>(place_.memory.size()); }

  /// Every rank's `mine`, one after the other. This call completes before it returns; others may return a request.
  pith::completed all_gather(pith::seq_executor const&, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    read_all(mine.data(), [&](std::byte const* theirs, unsigned rank) {
      std::copy_n(theirs, mine.size(), all.data() + rank * mine.size());
    });
    return {};
  }

  /// In place, in the order of the ranks, so that all ranks get the same bits.
  template <class T>
  pith::completed all_reduce(pith::seq_executor const&, pith::span<T> x, pith::reduction how) {
    auto result = std::vector<T>(x.size());
    read_all(x.data(), [&](T const* theirs, unsigned rank) {
      for (std::size_t i = 0; i < x.size(); ++i) result[i] = rank == 0 ? theirs[i] : reduced(result[i], theirs[i], how);
    });
    std::copy(result.begin(), result.end(), x.data());
    return {};
  }

 private:
  /// Calls f with each rank's data. All ranks have read all data when it returns.
  template <class T, class F>
  void read_all(T const* mine, F const& f) {
    place_.memory[rank_] = mine;
    place_.ranks_here.arrive_and_wait();
    for (unsigned rank = 0; rank < size(); ++rank) f(static_cast<T const*>(place_.memory[rank]), rank);
    place_.ranks_here.arrive_and_wait();
  }
  template <class T>
  static T reduced(T a, T b, pith::reduction how) {
    if constexpr (pith::real<T>) {  // half and bfloat16 are added as floats
      using A = pith::accum<T>;
      auto const x = pith::element_cast<A>(a), y = pith::element_cast<A>(b);
      return pith::element_cast<T>(how == pith::reduction::sum ? x + y : std::max(x, y));
    } else {
      return static_cast<T>(how == pith::reduction::sum ? a + b : std::max(a, b));
    }
  }

  meeting_place& place_;
  unsigned rank_;
};

// two_shot needs all_to_all as well, and ring send_recv: comm/communicator.hpp has a concept for each call.
static_assert(pith::exchange_communicator<own_communicator, pith::seq_executor>);

void exchange(own_communicator comm) {
  auto const codec = pith::error_feedback(pith::top_k(0.25));
  auto exchange = pith::make_exchange<float>(
      pith::seq, comm, {{"weight", pith::matrix(2, 4)}, {"bias", pith::vector(2)}}, pith::matrices(codec));
  auto gradient = std::vector<float>(exchange.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i * (comm.rank() + 1));
  exchange.all_reduce_mean(gradient);
  if (comm.rank() != 0) return;
  std::printf("the mean of three compressed gradients:");
  for (auto const x : gradient) std::printf(" %g", x);
  std::printf("\n");
}

}  // namespace

int main() {
  auto place = meeting_place(3);
  auto threads = std::vector<std::jthread>();
  for (unsigned rank = 0; rank < 3; ++rank) threads.emplace_back([&place, rank] { exchange({place, rank}); });
}
