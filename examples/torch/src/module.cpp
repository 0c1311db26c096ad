// module.cpp — the Python module pith_torch._core.
#include "exchange.hpp"
#include "local_group.hpp"
#include "process_group.hpp"

#include <pith/exchange/reshard.hpp>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace pith_torch {
namespace {

using namespace nb::literals;
using without_gil = nb::call_guard<nb::gil_scoped_release>;

template <class In>
void bind_exchange(nb::module_& m, char const* name) {
  using type = exchange<In>;
  nb::class_<type>(m, name)
      .def(nb::init<pith::any_communicator&, std::vector<parameter> const&, std::uint64_t, std::optional<std::size_t>,
                    bool>(),
           nb::keep_alive<1, 2>(), without_gil(), "communicator"_a, "parameters"_a, nb::kw_only(), "seed"_a,
           "bucket_bytes"_a.none(), "keeps_last_state"_a)
      .def("begin", &type::begin, without_gil())
      .def("ready", &type::ready, "parameter"_a, "gradient"_a.noconvert(), without_gil())
      .def("wait", &type::wait, without_gil())
      .def("abandon", &type::abandon, without_gil())
      .def_prop_ro("has_failed", &type::has_failed)
      .def("rescale", &type::rescale, "factor"_a, without_gil())
      .def("fit_buckets", &type::fit_buckets, without_gil())
      .def_prop_ro("buckets", &type::buckets)
      .def("fed_back", &type::fed_back, "parameter"_a)
      .def("save", &type::save, "steps_back"_a = 0)
      .def("load", &type::load, "state"_a)
      .def("report", &type::report)
      .def("trace", &type::trace, "rank"_a)
      .def_prop_ro("trace_began", &type::trace_began)
      .def("clear_trace", &type::clear_trace);
}

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
  bind_exchange<float>(m, "FloatExchange");
  bind_exchange<pith::bfloat16>(m, "BFloat16Exchange");
  m.def("reshard", &reshard, "states"_a, "ranks"_a, "rank"_a);
}
