// tests/static/models/controllers.hpp — what chooses rates: Accordion, GraVAC, L-GreCo.
#pragma once

#include <pith/control/rate_controller.hpp>

#include <cstring>

namespace models {

/// A controller that remembers `State`, trivially copyable, as its bytes.
template <class State>
struct remembering {
  std::vector<std::byte> save() const {
    auto bytes = std::vector<std::byte>(sizeof(State));
    std::memcpy(bytes.data(), &state, sizeof(State));
    return bytes;
  }
  void load(pith::span<std::byte const> bytes) { std::memcpy(&state, bytes.data(), sizeof(State)); }

  State state;
};

struct critical_regime {
  double last_norm = 0;
  bool critical = true;
};

/// Accordion for one tensor: little compression while its norm changes by more than half between two observations.
struct accordion : remembering<critical_regime> {
  std::string name() const { return "accordion"; }
  void observe(pith::step_report const& seen) {
    auto const norm = seen.tensors[0].energy;
    auto const change = norm > state.last_norm ? norm - state.last_norm : state.last_norm - norm;
    state.critical = change >= 0.5 * state.last_norm;
    state.last_norm = norm;
  }
  double decide(std::uint64_t, std::uint32_t) const { return state.critical ? 0.1 : 0.01; }
};

struct ladder {
  double gain = 0;
  std::uint32_t rung = 0;
};

/// GraVAC: the next rung while the gain, kept / energy, stays high.
struct gravac : remembering<ladder> {
  std::string name() const { return "gravac"; }
  void observe(pith::step_report const&);
  double decide(std::uint64_t, std::uint32_t) const;
};

struct table {
  double rate[64];
};

/// L-GreCo: a knapsack over the errors of several rates of each tensor.
struct l_greco : remembering<table> {
  std::string name() const { return "l_greco"; }
  void observe(pith::step_report const&);
  double decide(std::uint64_t, std::uint32_t) const;
};

/// It decides by changing itself, which is not pure.
struct restless : gravac {
  double decide(std::uint64_t, std::uint32_t);
};

}  // namespace models
