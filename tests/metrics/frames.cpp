// tests/metrics/frames.cpp — programs whose backtraces metrics.py counts: one all_reduce_mean with error feedback.
#include <pith/comm/self.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace {

auto const codec = pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>());

void call_function(pith::span<float> gradient) {
  auto const dims = pith::vector(gradient.size());
  auto comm = pith::self_communicator();
  auto state = pith::make_state<float>(pith::seq, codec, dims);
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, dims, comm.size()));
  auto ws = pith::workspace<>(memory);
  pith::all_reduce_mean(pith::seq, comm, codec, gradient, state, ws);
}

/// The call of README.md.
void call_exchange(pith::span<float> gradient) {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"weight", pith::vector(gradient.size())}}, codec);
  exchange.all_reduce_mean(gradient);
}

}  // namespace

/// frames function|exchange N, where N is the number of elements.
int main(int, char** arguments) {
  auto gradient = std::vector<float>(std::stoull(arguments[2]), 1.0f);
  std::string(arguments[1]) == "exchange" ? call_exchange(gradient) : call_function(gradient);
}
