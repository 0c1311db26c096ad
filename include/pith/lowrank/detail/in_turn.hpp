// pith/lowrank/detail/in_turn.hpp — loops that are launched in every step and execute in every other step.
#pragma once

#include <pith/core/executor.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Selects the steps in which *count % 2 equals `parity`, where *count is the number of completed steps. This number is
/// in the executor's memory, so the host cannot evaluate the condition.
struct turn {
  std::uint32_t const* count;
  std::uint32_t parity;
  PITH_HD bool is_on() const { return *count % 2 == parity; }
};

template <class F>
struct index_in_turn {
  F f;
  turn when;
  PITH_HD void operator()(std::uint64_t i) const {
    if (when.is_on()) f(i);
  }
};

template <class Body>
struct block_in_turn : Body {
  turn when;

  template <team Team>
  PITH_HD void operator()(Team const& team, typename Body::memory& fast, std::uint64_t block) const {
    if (when.is_on()) Body::operator()(team, fast, block);
  }
};

/// An executor whose loops call their functions only if `when.is_on()`.
template <executor E>
class in_turn : public E {
 public:
  in_turn(E const& exec, turn when) : E(exec), when_(when) {}

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    E::for_each_index(n, index_in_turn<F>{f, when_});
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    E::for_each_block(blocks, block_in_turn<Body>{body, when_});
  }

 private:
  turn when_;
};

static_assert(executor<in_turn<archetype>>);

}}}  // namespace pith::PITH_ABI::detail
