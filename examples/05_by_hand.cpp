// examples/05_by_hand.cpp — GRACE's loop of compressor, memory and communicator, and the equivalent call.
//
//   5 steps by hand and by one call: the same bits
//
// docs/grace.md maps GRACE's parts and parameters to those of this library.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr std::size_t n = 10'000;

/// The parts that a user of GRACE names: compress and decompress, a memory, a communicator that gathers.
class by_hand {
 public:
  explicit by_hand(pith::thread_communicator comm)
      : comm_(comm),
        compressor_(pith::seq, pith::top_k(0.01) | pith::qsgd<8>(), pith::vector(n),
                    {0, 0, static_cast<std::uint16_t>(comm.rank())}),
        mine_((compressor_.payload().size() + 7) / 8 * 8),  // so that all payloads are aligned to 8 bytes
        all_(mine_.size() * comm.size()) {}

  void step(std::vector<float>& gradient) {
    auto const x = compensate(gradient);
    std::ranges::copy(compressor_.compress(x), mine_.begin());
    update(x);
    comm_.all_gather(pith::seq, mine_, all_).wait(pith::seq);
    aggregate(gradient);
  }

 private:
  std::vector<float> compensate(std::vector<float> const& gradient) const {
    auto x = gradient;
    for (std::size_t i = 0; i < n; ++i) x[i] += residual_[i];
    return x;
  }
  void update(std::vector<float> const& x) {
    auto sent = std::vector<float>(n);
    compressor_.decompress(mine_, sent);
    for (std::size_t i = 0; i < n; ++i) residual_[i] = x[i] - sent[i];
  }
  void aggregate(std::vector<float>& mean) {
    auto sum = std::vector<float>(n), one = sum;
    for (std::uint16_t rank = 0; rank < comm_.size(); ++rank) {
      auto const payload = pith::span<std::byte const>(all_).subspan(rank * mine_.size(), mine_.size());
      compressor_.decompress(payload, one, rank);
      for (std::size_t i = 0; i < n; ++i) sum[i] += one[i];
    }
    for (std::size_t i = 0; i < n; ++i) mean[i] = sum[i] / static_cast<float>(comm_.size());
  }

  pith::thread_communicator comm_;
  pith::compressor<float> compressor_;
  std::vector<std::byte> mine_, all_;
  std::vector<float> residual_ = std::vector<float>(n);
};

}  // namespace

int main() {
  constexpr int steps = 5;
  pith::run_ranks(4, [](pith::thread_communicator comm) {
    auto one = by_hand(comm);
    // The same: memory and compressor are one codec, and the exchange gathers.
    auto other = pith::make_exchange<float>(pith::seq, comm, {{"gradient", pith::vector(n)}},
                                            pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>()));
    bool same = true;
    for (int step = 0; step < steps; ++step) {
      auto a = std::vector<float>(n);
      for (std::size_t i = 0; i < n; ++i) a[i] = std::sin(static_cast<float>(i * i + 7 * comm.rank() + 1));
      auto b = a;
      one.step(a);
      other.all_reduce_mean(b);
      same = same && a == b;
    }
    if (comm.rank() == 0)
      std::printf("%d steps by hand and by one call: %s\n", steps, same ? "the same bits" : "different bits");
  });
}
