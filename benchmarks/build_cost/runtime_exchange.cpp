// benchmarks/build_cost/runtime_exchange.cpp — exchanges two tensors in one step by a codec of pith::runtime.
#include <pith/runtime/gradient_exchange.hpp>

#include <string_view>

void step(std::string_view text, pith::any_communicator& comm, pith::span<float> gradients) {
  auto exchange = pith::runtime::gradient_exchange<float>(
      {}, comm, {{"weight", pith::matrix(4096, 1024)}, {"bias", pith::vector(1024)}}, pith::runtime::parse<float>(text));
  exchange.all_reduce_mean(gradients);
}
