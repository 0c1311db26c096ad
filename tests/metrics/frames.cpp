// tests/metrics/frames.cpp — a program whose backtrace metrics.py counts: one all_reduce_mean with error feedback.
#include <pith/comm/self.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/pith.hpp>

#include <cstddef>
#include <string>
#include <vector>

/// frames N, where N is the number of elements.
int main(int, char** arguments) {
  auto const dims = pith::vector(std::stoull(arguments[1]));
  auto const codec = pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>());
  auto comm = pith::self_communicator();
  auto state = pith::make_state<float>(pith::seq, codec, dims);
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, dims, comm.size()));
  auto ws = pith::workspace<>(memory);
  auto gradient = std::vector<float>(dims.n, 1.0f);
  pith::all_reduce_mean(pith::seq, comm, codec, pith::span<float>(gradient), state, ws);
}
