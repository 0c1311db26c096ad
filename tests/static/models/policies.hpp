// tests/static/models/policies.hpp — a class that fails the feedback concept.
#pragma once

#include "declared.hpp"

#include <pith/feedback/ef21.hpp>

namespace models {

/// compensate wants to change the state: a round later it would do so again.
struct impatient : pith::ef21 {
  template <real In, executor E>
  void compensate(context<In, E> const&, values_on<E, In const>, values_on<E, pith::accum<In>>,
                  local<pith::accum<In>, E>&) const;
};

}  // namespace models
