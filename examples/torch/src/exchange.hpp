// exchange.hpp — the exchange of one rank's gradients, with the arguments that Python passes.
#pragma once

#include <pith/comm/trace.hpp>
#include <pith/core/error.hpp>
#include <pith/exchange/exchange_options.hpp>
#include <pith/exchange/report_lines.hpp>
#include <pith/exchange/tensor_spec.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace pith_torch {

namespace nb = nanobind;

/// A model's parameter, and the text of its codec.
struct parameter {
  std::string name;
  std::uint64_t rows, columns;
  std::string codec;
};

/// An exchange of one rank's gradients, whose elements have the type In. `Place` has the types of the memory in which the
/// gradients lie: on_host (module.cpp) or on_device (device_exchange.cuh).
///
///   requires    the communicator outlives this object; only one thread at a time uses this object
///   errors      those of pith::gradient_exchange, as ValueError (std::invalid_argument) and RuntimeError
template <class In, class Place>
class exchange {
 public:
  using communicator = typename Place::communicator;
  using values = nb::ndarray<nb::ndim<1>, nb::c_contig, typename Place::device>;
  using copied_values = nb::ndarray<nb::pytorch, float, nb::ndim<1>>;

  /// If keeps_last_state, save(1) returns the state before the last step. `stream` is the address of the CUDA stream.
  exchange(communicator& comm, std::vector<parameter> const& parameters, std::uintptr_t stream, std::uint64_t seed,
           std::optional<std::size_t> bucket_bytes, bool keeps_last_state) {
    auto next = parameters.begin();
    made_.emplace(
        Place::executor(stream), comm, tensors_of(parameters),
        [&](pith::tensor_spec const&) { return Place::template parse<In>((next++)->codec); },
        pith::exchange_options{
            .seed = seed, .bucket_bytes = bucket_bytes, .trace = &trace_, .is_recoverable = keeps_last_state});
  }
  exchange(exchange&&) = delete;
  /// Releases the GIL, since the thread of the exchange may need it to end.
  ~exchange() {
    auto const released = nb::gil_scoped_release();
    made_.reset();
  }

  void begin() { made_->begin(); }
  void ready(std::size_t parameter, values const& gradient) {
    if (gradient.dtype() != type()) throw std::invalid_argument("ready: the gradient has another element type");
    made_->ready(parameter, {static_cast<In*>(gradient.data()), gradient.size()});
  }
  void wait() { made_->wait(); }
  void abandon() { made_->abandon(); }
  bool has_failed() const { return made_->has_failed(); }

  void rescale(double factor) { made_->rescale(factor); }
  void fit_buckets() { made_->fit_buckets(); }
  std::size_t buckets() const { return made_->buckets(); }
  copied_values fed_back(std::size_t parameter) const {
    auto* const values = new std::vector<float>(made_->fed_back(parameter));
    auto const owner = nb::capsule(values, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
    return copied_values(values->data(), {values->size()}, owner);
  }

  nb::bytes save(unsigned steps_back) const {
    auto const state = made_->export_state(steps_back);
    return nb::bytes(state.data(), state.size());
  }
  void load(nb::bytes const& state) {
    made_->import_state({static_cast<std::byte const*>(state.data()), state.size()});
  }

  /// One JSON object per line (pith::write_lines).
  std::string report() const {
    auto lines = std::ostringstream();
    pith::write_lines(lines, made_->report());
    return lines.str();
  }
  std::string trace(unsigned rank) const { return trace_.json(rank); }
  /// The time at which the trace's time axis begins, on the clock of Python's time.monotonic().
  double trace_began() const { return std::chrono::duration<double>(trace_.began().time_since_epoch()).count(); }
  /// The number of time spans that the full trace did not record.
  std::size_t trace_dropped() const { return trace_.dropped(); }
  void clear_trace() { trace_.clear(); }

 private:
  static constexpr nb::dlpack::dtype type() {
    auto const code = std::is_same_v<In, float> ? nb::dlpack::dtype_code::Float : nb::dlpack::dtype_code::Bfloat;
    return {static_cast<std::uint8_t>(code), 8 * sizeof(In), 1};
  }
  static std::vector<pith::tensor_spec> tensors_of(std::vector<parameter> const& parameters) {
    auto tensors = std::vector<pith::tensor_spec>();
    for (auto const& p : parameters) tensors.push_back({p.name, pith::matrix(p.rows, p.columns)});
    return tensors;
  }

  pith::exchange_trace trace_;
  std::optional<typename Place::template exchange<In>> made_;
};

template <class In, class Place>
void bind_exchange(nb::module_& m, char const* name) {
  using namespace nb::literals;
  using type = exchange<In, Place>;
  using without_gil = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<type>(m, name)
      .def(nb::init<typename type::communicator&, std::vector<parameter> const&, std::uintptr_t, std::uint64_t,
                    std::optional<std::size_t>, bool>(),
           nb::keep_alive<1, 2>(), without_gil(), "communicator"_a, "parameters"_a, nb::kw_only(), "stream"_a = 0,
           "seed"_a, "bucket_bytes"_a.none(), "keeps_last_state"_a)
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
      .def_prop_ro("trace_dropped", &type::trace_dropped)
      .def("clear_trace", &type::clear_trace);
}

}  // namespace pith_torch
