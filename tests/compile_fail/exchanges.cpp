// tests/compile_fail/exchanges.cpp — policies that choose no codec, controllers that lack a function, and a probe on a device.
#include <pith/adaptor/rated.hpp>
#include <pith/comm/self.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/fixed_schedule.hpp>
#include <pith/cost_model/probe.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include <string>
#include <vector>

namespace sample {

/// Decides, and cannot be saved.
struct forgetful_controller {
  std::string name() const { return "forgetful"; }
  void observe(pith::step_report const&) {}
  double decide(std::uint64_t, std::uint32_t) const { return 1; }
};

struct unique_controller : pith::fixed_schedule {
  using fixed_schedule::fixed_schedule;
  unique_controller(unique_controller const&) = delete;
  unique_controller(unique_controller&&) = default;
};

struct device_executor : pith::archetype {
  using space = pith::device_space;
};

}  // namespace sample

int main() {
  [[maybe_unused]] auto const codec = pith::error_feedback(pith::rated(pith::top_k(0.1)));
  auto comm = pith::self_communicator();
  auto const tensors = std::vector<pith::tensor_spec>{{"w", {16}}};
#if defined(TEXT_AS_POLICY)
  // expected-error {{pith: a codec policy is a codec of this executor, or a function of a tensor_spec that returns one; parse<In>(exec, text) returns the codec of a text}}
  pith::make_exchange<float>(pith::seq, comm, tensors, "ef(top_k(0.1))");
#elif defined(TEXT_AS_ADAPTED_POLICY)
  // expected-error {{pith: a codec policy is a codec of this executor, or a function of a tensor_spec that returns one}}
  pith::make_adaptive_exchange<float>(pith::seq, comm, tensors, "ef(top_k(0.1))", pith::fixed_schedule({{0, 0.1}}));
#elif defined(INCOMPLETE_CONTROLLER)
  // expected-error {{pith: a controller has std::string name() const, void observe(step_report const&)}}
  pith::make_adaptive_exchange<float>(pith::seq, comm, tensors, codec, sample::forgetful_controller());
#elif defined(UNIQUE_CONTROLLER)
  // expected-error {{pith: a controller must be copyable}}
  pith::make_adaptive_exchange<float>(pith::seq, comm, tensors, codec, sample::unique_controller({{0, 0.1}}));
#elif defined(PROBE_ON_A_DEVICE)
  // expected-error {{pith: probe needs a host executor: a host cannot time the codecs of a device}}
  pith::probe<float>(sample::device_executor(), comm, tensors, pith::span<float const, pith::device_space>(), {});
#else
  pith::probe<float>(pith::seq, comm, tensors, pith::span<float const>(), {{"codec", codec}});
  pith::make_exchange<float>(pith::seq, comm, tensors, codec);
  pith::make_adaptive_exchange<float>(pith::seq, comm, tensors, codec, pith::fixed_schedule({{0, 0.1}}));
#endif
}
