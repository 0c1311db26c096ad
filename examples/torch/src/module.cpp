// module.cpp — the Python module pith_torch._core.
#include "exchange.hpp"
#include "local_group.hpp"
#include "process_group.hpp"
#if defined(PITH_TORCH_CUDA)
#include "device_module.hpp"
#endif

#include <pith/comm/any_communicator.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pith_torch {
namespace {

using namespace nb::literals;

/// Gradients in host memory.
struct on_host {
  using communicator = pith::any_communicator;
  using device = nb::device::cpu;
  template <class In>
  using exchange = pith::runtime::gradient_exchange<In>;

  static pith::runtime::executor executor(std::uintptr_t) { return {}; }
  template <class In>
  static pith::runtime::any_codec<In> parse(std::string const& text) {
    return pith::runtime::parse<In>(text);
  }
};

nb::bytes reshard(std::vector<nb::bytes> const& states, unsigned ranks, unsigned rank) {
  auto old = std::vector<std::vector<std::byte>>();
  for (auto const& state : states) {
    auto const first = static_cast<std::byte const*>(state.data());
    old.emplace_back(first, first + state.size());
  }
  auto const made = pith::reshard(old, ranks, rank);
  return nb::bytes(made.data(), made.size());
}

}  // namespace
}  // namespace pith_torch

NB_MODULE(_core, m) {
  using namespace pith_torch;
  nb::set_leak_warnings(false);  // an exception that ends the program keeps objects alive
  nb::class_<pith::any_communicator>(m, "Communicator");
  nb::class_<local_group>(m, "LocalGroup")
      .def(nb::init<unsigned>(), "size"_a)
      .def("communicator", &local_group::communicator, "rank"_a, nb::rv_policy::reference_internal);
  m.def(
      "communicator",
      [](nb::object const& collectives) {
        return pith::any_communicator::owning([&] { return process_group(collectives); });
      },
      "collectives"_a);
  nb::class_<parameter>(m, "Parameter")
      .def(nb::init<std::string, std::uint64_t, std::uint64_t, std::string>(), "name"_a, "rows"_a, "columns"_a,
           "codec"_a);
  bind_exchange<float, on_host>(m, "FloatExchange");
  bind_exchange<pith::bfloat16, on_host>(m, "BFloat16Exchange");
#if defined(PITH_TORCH_CUDA)
  bind_device(m);
#endif
  m.def("reshard", &reshard, "states"_a, "ranks"_a, "rank"_a);
}
