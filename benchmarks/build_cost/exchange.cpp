// benchmarks/build_cost/exchange.cpp — exchanges two tensors in one step by PITH_CODEC on PITH_EXECUTOR.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>

#include <type_traits>

using namespace pith;
using executor_type = std::remove_cvref_t<decltype(PITH_EXECUTOR)>;
using codec_type = std::remove_cvref_t<decltype(PITH_CODEC)>;

/// The codec is a parameter, so the compiler cannot fold its values.
void step(executor_type const& exec, codec_type const& codec, thread_communicator& comm, span<float> gradients) {
  auto exchange =
      make_exchange<float>(exec, comm, {{"weight", {4096 * 1024, 4096}}, {"bias", {1024}}}, matrices(codec));
  exchange.all_reduce_mean(gradients);
}
