// examples/train/exchange.hpp — the exchange of a rank on seq.
#pragma once

#include "network.hpp"
#include "rank_exchange.hpp"

#include <pith/exchange/exchange_options.hpp>
#include <pith/exchange/tensor_spec.hpp>

#include <range/v3/range/conversion.hpp>
#include <range/v3/view/transform.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace train {

inline std::vector<pith::tensor_spec> specs(network const& net) {
  auto const spec = [](tensor const& t) { return pith::tensor_spec{t.name, {t.n, t.rows}}; };
  return net.tensors() | ranges::views::transform(spec) | ranges::to<std::vector>();
}

/// Makes the exchange of a codec, of a controller's rates, or of a schedule's phases. `codec` is a codec's text, or the
/// name of a controller or of a schedule. on_seq.cpp defines this function for thread_communicator and
/// echo_communicator.
template <class Comm>
std::unique_ptr<rank_exchange> exchange_on_seq(Comm comm, network const& net, std::string const& codec,
                                               std::size_t steps, std::size_t epoch,
                                               pith::exchange_options const& options);

}  // namespace train
