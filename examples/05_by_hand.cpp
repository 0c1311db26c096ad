// examples/05_by_hand.cpp — GRACE's loop of compressor, memory and communicator, and the one call that does the same.
//
//   5 steps by hand and by one call: the same bits
//
// docs/grace.md lists what GRACE's parts and parameters are called here.
#include <pith/comm/threads.hpp>
#include <pith/pith.hpp>

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
        state_(pith::make_state<float>(pith::seq, codec_, {n}, {0, 0, static_cast<std::uint16_t>(comm.rank())})),
        mine_((pith::payload_bytes<float>(codec_, {n}) + 7) / 8 * 8),  // so that all lie at a multiple of 8 bytes
        all_(mine_.size() * comm.size()),
        scratch_(pith::workspace_bytes<float>(pith::seq, codec_, {n})) {}

  void step(std::vector<float>& gradient) {
    auto ws = pith::workspace(pith::span(scratch_));
    auto const x = compensate(gradient);
    pith::compress(pith::seq, codec_, pith::span(x), pith::span(mine_), state_, ws);
    update(x, ws);
    comm_.all_gather(pith::seq, pith::span<std::byte const>(mine_), pith::span(all_)).wait(pith::seq);
    aggregate(gradient, ws);
  }

 private:
  std::vector<float> compensate(std::vector<float> const& gradient) const {
    auto x = gradient;
    for (std::size_t i = 0; i < n; ++i) x[i] += residual_[i];
    return x;
  }
  void update(std::vector<float> const& x, pith::workspace<>& ws) {
    auto sent = std::vector<float>(n);
    pith::decompress(pith::seq, codec_, pith::span(mine_), pith::span(sent), state_, ws);
    for (std::size_t i = 0; i < n; ++i) residual_[i] = x[i] - sent[i];
  }
  void aggregate(std::vector<float>& mean, pith::workspace<>& ws) {
    auto sum = std::vector<float>(n), one = sum;
    for (std::uint16_t rank = 0; rank < comm_.size(); ++rank) {
      auto const payload = pith::span<std::byte const>(all_).subspan(rank * mine_.size(), mine_.size());
      pith::decompress(pith::seq, codec_, payload, pith::span(one), state_, ws, rank);
      for (std::size_t i = 0; i < n; ++i) sum[i] += one[i];
    }
    for (std::size_t i = 0; i < n; ++i) mean[i] = sum[i] / static_cast<float>(comm_.size());
  }

  using codec = decltype(pith::top_k(0.01) | pith::qsgd<8>());
  pith::thread_communicator comm_;
  codec codec_ = pith::top_k(0.01) | pith::qsgd<8>();
  pith::codec_state<float, codec, pith::seq_executor> state_;
  std::vector<std::byte> mine_, all_, scratch_;
  std::vector<float> residual_ = std::vector<float>(n);
};

/// The same: memory and compressor are one codec, which knows how it is exchanged.
class by_one_call {
 public:
  explicit by_one_call(pith::thread_communicator comm)
      : comm_(comm),
        state_(pith::make_state<float>(pith::seq, codec_, {n}, {0, 0, static_cast<std::uint16_t>(comm.rank())})),
        scratch_(pith::workspace_bytes<float>(pith::seq, codec_, {n}, comm.size())) {}

  void step(std::vector<float>& gradient) {
    auto ws = pith::workspace(pith::span(scratch_));
    pith::all_reduce_mean(pith::seq, comm_, codec_, pith::span(gradient), state_, ws);
  }

 private:
  using codec = decltype(pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>()));
  pith::thread_communicator comm_;
  codec codec_ = pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>());
  pith::codec_state<float, codec, pith::seq_executor> state_;
  std::vector<std::byte> scratch_;
};

}  // namespace

int main() {
  constexpr int steps = 5;
  pith::run_ranks(4, [](pith::thread_communicator comm) {
    auto one = by_hand(comm);
    auto other = by_one_call(comm);
    bool same = true;
    for (int step = 0; step < steps; ++step) {
      auto a = std::vector<float>(n);
      for (std::size_t i = 0; i < n; ++i) a[i] = std::sin(static_cast<float>(i * i + 7 * comm.rank() + 1));
      auto b = a;
      one.step(a);
      other.step(b);
      same = same && a == b;
    }
    if (comm.rank() == 0)
      std::printf("%d steps by hand and by one call: %s\n", steps, same ? "the same bits" : "different bits");
  });
}
