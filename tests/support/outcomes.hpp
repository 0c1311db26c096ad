// tests/support/outcomes.hpp — the bytes of several cases on an executor, for comparison with another.
#pragma once

#include "support/exchanged.hpp"
#include "support/executed.hpp"
#include "support/summed.hpp"

#include <concepts>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace support {

struct outcome {
  std::string name;  ///< the codec, the verb and the size
  std::vector<std::byte> bytes;
  bool is_lossless = true;  ///< no sum rounds, so that contraction changes nothing
};

/// A case: a codec, a shape, and one of these verbs.
///
///   execute          two steps of compress and decompress
///   execute_inexact  ... by sums that are inexact in double
///   sum              three payloads as their mean
///   exchange    three steps of all_reduce_mean in a group of one
///   exchange_own     ... whose bytes in double depend on the executor: compares two runs
template <class In, pith::executor E>
class outcomes {
 public:
  explicit outcomes(E const& exec) : exec_(exec) {}

  template <class C>
  void execute(C const& codec, pith::shape dims) {
    add("execute", codec, dims, executed<In>(exec_, codec, dims));
  }
  template <class C>
  void execute_inexact(C const& codec, pith::shape dims) {
    add("execute", codec, dims, executed<In>(exec_, codec, dims), !std::same_as<In, double>);
  }
  template <class C>
  void sum(C const& codec, pith::shape dims) {
    auto const mean = summed<In>(exec_, codec, dims);
    auto bytes = std::vector<std::byte>(mean.size() * sizeof mean[0]);
    if (!mean.empty()) std::memcpy(bytes.data(), mean.data(), bytes.size());
    add("sum", codec, dims, std::move(bytes));
  }
  template <class C>
  void exchange(C const& codec, pith::shape dims) {
    add("exchange", codec, dims, exchanged<In>(exec_, codec, dims));
  }

  template <class C>
  void exchange_own(C const& codec, pith::shape dims) {
    if constexpr (std::same_as<In, double>) {
      auto const is_repeated = exchanged<In>(exec_, codec, dims) == exchanged<In>(exec_, codec, dims);
      add("exchange twice", codec, dims, {std::byte{is_repeated}});
    } else {
      exchange(codec, dims);
    }
  }

  std::vector<outcome> take() { return std::move(all_); }

 private:
  template <class C>
  void add(char const* verb, C const& codec, pith::shape dims, std::vector<std::byte> bytes, bool is_lossless = true) {
    auto name = std::string(verb) + " " + codec.name() + " of " + std::to_string(dims.n);
    all_.push_back({std::move(name), std::move(bytes), is_lossless});
  }

  E exec_;
  std::vector<outcome> all_;
};

}  // namespace support
