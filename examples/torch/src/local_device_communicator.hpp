// local_device_communicator.hpp — a communicator whose ranks share one process, one device and one stream.
#pragma once

#include "device_communicator.hpp"

#include <pith/comm/any_communicator.hpp>
#include <pith/core/element.hpp>
#include <pith/core/error.hpp>
#include <pith/exec/seq.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pith_torch {

/// x[i] becomes the sum or the maximum of x[i] and y[i]. Elements of half and bfloat16 are added as floats.
template <class T>
struct reduce_into {
  T* x;
  T const* y;
  pith::reduction how;

  PITH_HD void operator()(std::uint64_t i) const {
    auto const a = number(x[i]), b = number(y[i]);
    auto const result = how == pith::reduction::sum ? a + b : a < b ? b : a;
    if constexpr (pith::real<T>) {
      x[i] = pith::element_cast<T>(result);
    } else {
      x[i] = static_cast<T>(result);
    }
  }

 private:
  PITH_HD static auto number(T value) {
    if constexpr (pith::real<T>) {
      return pith::element_cast<pith::accum<T>>(value);
    } else {
      return value;
    }
  }
};

/// Copies and adds in the memory of a device. The ranks are threads whose executors share one stream. The host
/// communicator passes addresses between the ranks. A call of this communicator returns after all ranks have enqueued the
/// call. So the stream runs each call after the work that the ranks enqueued before the call, and before all later work.
///
///   requires    the host communicator must outlive this object; nvcc
///   errors      pith::communication_error if ranks make different calls
///   properties  elements are added in rank order, so all ranks get equal bits
class local_device_communicator final : public device_communicator {
 public:
  explicit local_device_communicator(pith::any_communicator& host) : host_(host) {}

  unsigned rank() const override { return host_.rank(); }
  unsigned size() const override { return host_.size(); }

  request all_gather(pith::cuda_executor const& exec, pith::device_span<std::byte const> mine,
                     pith::device_span<std::byte> all) override {
    auto const shown = show("all_gather", mine.data(), mine.size());
    for (unsigned r = 0; r < size(); ++r) exec.copy(all.data() + r * mine.size(), shown[r].data, mine.size());
    return meet();
  }
  request all_to_all(pith::cuda_executor const& exec, pith::device_span<std::byte const> mine,
                     pith::device_span<std::byte> all) override {
    auto const shown = show("all_to_all", mine.data(), mine.size());
    auto const piece = mine.size() / size();
    for (unsigned r = 0; r < size(); ++r)
      exec.copy(all.data() + r * piece, static_cast<std::byte const*>(shown[r].data) + rank() * piece, piece);
    return meet();
  }

 private:
  /// The memory that a rank passes to a call.
  struct memory {
    void const* data;
    std::size_t bytes;
  };

  request reduce(pith::cuda_executor const& exec, pith::element_kind kind, void* x, std::size_t n,
                 pith::reduction how) override {
    switch (kind) {
      case pith::element_kind::f32: return reduced(exec, static_cast<float*>(x), n, how);
      case pith::element_kind::f64: return reduced(exec, static_cast<double*>(x), n, how);
      case pith::element_kind::f16: return reduced(exec, static_cast<pith::half*>(x), n, how);
      case pith::element_kind::bf16: return reduced(exec, static_cast<pith::bfloat16*>(x), n, how);
      case pith::element_kind::i32: return reduced(exec, static_cast<std::int32_t*>(x), n, how);
      case pith::element_kind::i8: return reduced(exec, static_cast<std::int8_t*>(x), n, how);
      case pith::element_kind::bytes: break;
    }
    throw pith::communication_error("pith_torch: all_reduce needs elements that are numbers, got bytes");
  }
  /// Rank 0 adds the arrays of the other ranks to its own array. The other ranks copy the result.
  template <class T>
  request reduced(pith::cuda_executor const& exec, T* x, std::size_t n, pith::reduction how) {
    auto const shown = show("all_reduce", x, n * sizeof(T));
    if (rank() == 0) {
      for (unsigned r = 1; r < size(); ++r)
        exec.for_each_index(n, reduce_into<T>{x, static_cast<T const*>(shown[r].data), how});
    }
    meet();
    if (rank() != 0) exec.copy(x, shown[0].data, n * sizeof(T));
    return meet();
  }

  /// The memory of all ranks. Returns after all ranks have made the call.
  std::vector<memory> show(char const* call, void const* data, std::size_t bytes) {
    auto const mine = memory{data, bytes};
    auto all = std::vector<memory>(size());
    gather({reinterpret_cast<std::byte const*>(&mine), sizeof mine},
           {reinterpret_cast<std::byte*>(all.data()), all.size() * sizeof mine});
    for (unsigned r = 0; r < size(); ++r) {
      if (all[r].bytes != bytes) throw_different(call, bytes, r, all[r].bytes);
    }
    return all;
  }
  [[noreturn]] void throw_different(char const* call, std::size_t bytes, unsigned other, std::size_t others) const {
    throw pith::communication_error(std::string("pith_torch: ") + call + " of rank " + std::to_string(rank()) +
                                    " must have as many bytes as that of rank " + std::to_string(other) + ", " +
                                    std::to_string(others) + ", got " + std::to_string(bytes));
  }
  /// Returns after all ranks have called meet().
  request meet() {
    gather({}, {});
    return {};
  }
  void gather(pith::span<std::byte const> mine, pith::span<std::byte> all) {
    host_.all_gather(pith::seq, mine, all).wait(pith::seq);
  }

  pith::any_communicator& host_;
};

}  // namespace pith_torch
