// tests/support/group.hpp — ranks that exchange one tensor, each with its own state.
#pragma once

#include <pith/comm/threads.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/roundtrip.hpp"

namespace support {

/// The largest difference between two vectors of one size.
inline double worst(std::vector<double> const& a, std::vector<double> const& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

template <class In, class C>
class group {
 public:
  group(C const& codec, pith::shape dims, unsigned ranks) {
    for (unsigned r = 0; r < ranks; ++r) {
      trials_.emplace_back(codec, dims, pith::tensor_id{0x5eed, 1, static_cast<std::uint16_t>(r)});
    }
  }

  /// The mean that each rank receives.
  std::vector<std::vector<In>> all_reduce(std::vector<std::vector<In>> x) {
    pith::run_ranks(static_cast<unsigned>(trials_.size()), [&](pith::thread_communicator comm) {
      x[comm.rank()] = trials_[comm.rank()].all_reduce(std::move(x[comm.rank()]), comm);
    });
    return x;
  }

  auto& replicated(unsigned rank) { return trials_[rank].state().replicated(); }
  auto& local(unsigned rank) { return trials_[rank].state().local(); }

 private:
  std::vector<trial<In, C>> trials_;
};

/// A buffer of a policy's state, in double: policy_state(trial.state().local()).residual, say.
auto& policy_state(auto& states) { return std::get<1>(states.each); }
template <class Buffer>
std::vector<double> kept(Buffer const& buffer) {
  auto x = std::vector<double>(buffer.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = pith::element_cast<double>(buffer.data()[i]);
  return x;
}

}  // namespace support
