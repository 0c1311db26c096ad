// tests/exchange/golden_states.hpp — the jobs whose states lie in tests/data/state, one of each kind.
#pragma once

#include <pith/adaptor/rated.hpp>
#include <pith/codec/compressor.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/gradiveq.hpp>
#include <pith/control/l_greco.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "support/parsed.hpp"

namespace golden {

using state_bytes = std::vector<std::byte>;

/// Sixteenths, whose sums are exact.
inline std::vector<float> gradient(std::size_t n, unsigned rank, unsigned step) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i) g[i] = (static_cast<float>((i * 37 + rank * 11 + step * 5) % 33) - 16) / 16;
  return g;
}

/// What rank 1 has saved after a few steps of `ranks` ranks, by what `make(comm)` is.
template <class Make>
state_bytes saved_by(unsigned ranks, unsigned steps, Make const& make) {
  auto saved = state_bytes();
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto exchange = make(comm);
    for (unsigned step = 0; step < steps; ++step) {
      auto g = gradient(exchange.size(), comm.rank(), step);
      exchange.all_reduce_mean(g);
    }
    auto own = exchange.export_state();
    if (comm.rank() == 1) saved = std::move(own);
  });
  return saved;
}

inline pith::compressor<float> make_compressor() {
  return {pith::parse<float>("ef(top_k(0.2)|qsgd<8>)"), pith::matrix(5, 7), {5, 2, 1}};
}
/// The state of a compressor after three steps.
inline state_bytes saved_by_compressor() {
  auto c = make_compressor();
  for (unsigned step = 0; step < 3; ++step) c.compress(gradient(35, 1, step));
  return c.export_state();
}

/// Its tensors are named after their codecs, which keep fields of every kind.
inline auto make_exchange(pith::thread_communicator& comm) {
  auto tensors = std::vector<pith::tensor_spec>();
  for (auto const* const codec : {"identity", "ef(top_k(0.2))", "ef(scaled_sign(8),ef21(0.5))", "ef(power_sgd(1))",
                                  "ef(sidco(0.2))", "ef(two_shot(scaled_sign(8),ef(scaled_sign(8))))",
                                  "hierarchical(identity,ef(top_k(0.2)),2)", "ef(ok_top_k(0.2))"})
    tensors.push_back({codec, {35, 5}});
  auto const by_name = [](pith::tensor_spec const& tensor) { return pith::parse<float>(tensor.name); };
  return pith::make_exchange<float>(pith::seq, comm, tensors, by_name, {.seed = 5});
}
inline auto make_adaptive(pith::thread_communicator& comm) {
  auto const controller = pith::l_greco({.rates = {0.5, 0.25, 0.1}, .reference = 0.25, .interval = 2});
  return pith::make_adaptive_exchange<float>(pith::seq, comm, {{"weight", {35, 5}}},
                                             pith::parse<float>("ef(rated(top_k(0.25)))"), controller);
}

/// A schedule and its exchange, whose size it has.
class scheduled {
 public:
  explicit scheduled(pith::thread_communicator& comm)
      : exchange_(pith::make_exchange<float>(pith::seq, comm, {{"conv", {96, 4}}}, pith::parse<float>("identity"))),
        schedule_(pith::seq, comm, exchange_, {{0, {4, 6, 2, 2}, 24}}, {.warm_up = 1, .samples = 4}) {}

  std::size_t size() const { return exchange_.size(); }
  void all_reduce_mean(std::vector<float>& g) { schedule_.all_reduce_mean(g); }
  state_bytes export_state() const { return schedule_.export_state(); }
  void import_state(pith::span<std::byte const> bytes) { schedule_.import_state(bytes); }

 private:
  using exchange = pith::gradient_exchange<float, pith::seq_executor, pith::thread_communicator>;
  exchange exchange_;
  pith::gradiveq<float, pith::seq_executor, pith::thread_communicator> schedule_;
};

/// Calls f(file, ranks, steps, make) for each.
template <class F>
void for_each_kind(F const& f) {
  f("gradient_exchange", 4u, 2u, [](auto& comm) { return make_exchange(comm); });
  f("adaptive_exchange", 2u, 3u, [](auto& comm) { return make_adaptive(comm); });
  f("gradiveq", 2u, 3u, [](auto& comm) { return scheduled(comm); });
}

}  // namespace golden
