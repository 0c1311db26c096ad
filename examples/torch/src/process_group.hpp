// process_group.hpp — a communicator on a Python object with the collectives of a torch process group.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/error.hpp>
#include <pith/core/transfer.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace pith_torch {

namespace nb = nanobind;

/// Calls f with the GIL. Throws pith::communication_error if Python raises an exception, because a Python exception must
/// not be destroyed without the GIL.
template <class F>
auto in_python(char const* collective, F const& f) {
  auto const gil = nb::gil_scoped_acquire();
  auto reason = std::string();
  try {
    return f();
  } catch (nb::python_error const& error) {
    reason = nb::str(error.value()).c_str();
  }
  throw pith::communication_error("pith_torch: " + std::string(collective) + " failed: " + reason);
}

/// A Python object that may be destroyed without the GIL.
class python_object {
 public:
  explicit python_object(nb::object object) : handle_(object.release()) {}
  python_object(python_object&& other) noexcept : handle_(std::exchange(other.handle_, nb::handle())) {}
  python_object& operator=(python_object&&) = delete;
  ~python_object() {
    if (!handle_.is_valid()) return;
    auto const gil = nb::gil_scoped_acquire();
    handle_.dec_ref();
  }

  nb::handle get() const { return handle_; }

 private:
  nb::handle handle_;
};

/// A collective that torch runs: a torch.distributed.Work, or None for a collective that has ended.
class work {
 public:
  work(char const* collective, nb::object of) : collective_(collective), of_(std::move(of)) {}

  template <class E>
  void wait(E const&) {
    in_python(collective_, [&] {
      if (!of_.get().is_none()) of_.get().attr("wait")();
    });
  }
  /// A collective that failed is also completed. Then wait() raises its error. torch runs collectives without polls, and
  /// each poll takes the GIL. So test() calls Python at most once per millisecond.
  template <class E>
  bool test(E const&) {
    auto const now = std::chrono::steady_clock::now();
    if (now < next_poll_) return false;
    next_poll_ = now + std::chrono::milliseconds(1);
    return in_python(collective_, [&] {
      if (of_.get().is_none()) return true;
      if (!nb::cast<bool>(of_.get().attr("is_completed")())) return false;
      of_.get().attr("wait")();
      return true;
    });
  }

 private:
  char const* collective_;
  python_object of_;
  std::chrono::steady_clock::time_point next_poll_;
};

/// The device of tensors, as DLPack numbers devices.
struct device_of_tensors {
  int type = nb::device::cpu::value;
  int number = 0;
};

/// A communicator whose collectives are methods of a Python object (pith_torch/ranks.py):
///
///     all_gather(mine, all), all_to_all(mine, all), all_reduce(x, "sum" or "max"), send_recv(mine, to, theirs, source)
///
/// The arguments are tensors that share memory with the exchange. The methods return a torch.distributed.Work, or None
/// if there is nothing to wait for. split(color) returns such an object for the ranks of a color.
///
///   requires    the interpreter must live while calls run. Calls need no GIL; they take it. For CUDA tensors, the
///               exchange's stream is torch's current stream in the calling thread
///   errors      pith::communication_error with the text of Python's exception
class process_group {
 public:
  explicit process_group(nb::object collectives, device_of_tensors device = {})
      : collectives_(std::move(collectives)),
        rank_(nb::cast<unsigned>(collectives_.get().attr("rank"))),
        size_(nb::cast<unsigned>(collectives_.get().attr("size"))),
        device_(device) {}

  unsigned rank() const { return rank_; }
  unsigned size() const { return size_; }

  template <pith::executor E>
  work all_gather(E const&, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    return call("all_gather", [&] { return method("all_gather")(tensor_of(mine), tensor_of(all)); });
  }
  template <pith::executor E>
  work all_to_all(E const&, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    return call("all_to_all", [&] { return method("all_to_all")(tensor_of(mine), tensor_of(all)); });
  }
  template <pith::executor E, class T>
  work all_reduce(E const&, pith::span<T, pith::space_of<E>> x, pith::reduction how) {
    return all_reduce(pith::kind_of<T>(), x.data(), x.size(), how);
  }
  work all_reduce(pith::element_kind kind, void* x, std::size_t n, pith::reduction how) {
    auto const name = how == pith::reduction::sum ? "sum" : "max";
    return call("all_reduce", [&] { return method("all_reduce")(tensor_of(kind, x, n), name); });
  }
  template <pith::executor E>
  work send_recv(E const&, pith::span_on<E, std::byte const> mine, unsigned to, pith::span_on<E, std::byte> theirs,
                 unsigned from) {
    return call("send_recv", [&] { return method("send_recv")(tensor_of(mine), to, tensor_of(theirs), from); });
  }
  process_group split(unsigned color) {
    return in_python("split", [&] { return process_group(method("split")(color), device_); });
  }

 private:
  static nb::dlpack::dtype type_of(pith::element_kind kind) {
    switch (kind) {
      case pith::element_kind::f64: return nb::dtype<double>();
      case pith::element_kind::f32: return nb::dtype<float>();
      case pith::element_kind::i32: return nb::dtype<std::int32_t>();
      case pith::element_kind::i8: return nb::dtype<std::int8_t>();
      case pith::element_kind::f16: return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
      case pith::element_kind::bf16: return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
      case pith::element_kind::bytes: break;
    }
    return nb::dtype<std::uint8_t>();
  }
  /// A torch tensor that refers to n elements at x.
  nb::object tensor_of(pith::element_kind kind, void* x, std::size_t n) const {
    auto const array =
        nb::ndarray<nb::pytorch>(x, 1, &n, nb::handle(), nullptr, type_of(kind), device_.type, device_.number);
    return nb::cast(array, nb::rv_policy::reference);
  }
  template <class Byte, class Space>
  nb::object tensor_of(pith::span<Byte, Space> x) const {
    return tensor_of(pith::element_kind::bytes, const_cast<std::byte*>(x.data()), x.size());
  }
  template <class F>
  static work call(char const* collective, F const& f) {
    return in_python(collective, [&] { return work(collective, f()); });
  }

  nb::object method(char const* name) const { return collectives_.get().attr(name); }

  python_object collectives_;
  unsigned rank_, size_;
  device_of_tensors device_;
};

}  // namespace pith_torch
