// pith/exchange/detail/rank_weights.hpp — the factors by which the ranks' weights scale gradients and means.
#pragma once

#include <pith/codec/state.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/element.hpp>
#include <pith/exec/lanes.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Rank r of N has the weight w_r. A gradient is multiplied by f = N w_r / sum(w), so that the mean of the scaled
/// gradients is the weighted mean. Since f may be as large as N, a 16-bit float might overflow. For 16-bit gradients,
/// all ranks therefore use f / c, and multiply the mean by c, the smallest power of two that is at least max(f) and 1.
struct weight_factors {
  double const* weights;
  unsigned ranks, rank;
  bool is_narrow;  ///< whether the gradients have 16 bits. Otherwise c is 1
  double* own;     ///< out: f / c
  double* common;  ///< out: c

  PITH_HD void operator()(std::uint64_t) const {
    double largest = 0, total = 0, c = 1;
    for (unsigned r = 0; r < ranks; ++r) largest = weights[r] > largest ? weights[r] : largest;
    for (unsigned r = 0; r < ranks; ++r) total += largest > 0 ? weights[r] / largest : 0;
    auto const most = largest > 0 ? ranks / total : 0;  // f of the largest weight
    while (is_narrow && c < most) c *= 2;
    *own = largest > 0 ? weights[rank] / largest * most / c : 0;
    *common = c;
  }
};

/// Multiplies x by *factor. If *factor is 0, x becomes 0, even if it is NaN or infinite. A finite value that is too large
/// for a T of 16 bits becomes the largest finite value.
template <class T>
struct weigh_value {
  T* x;
  double const* factor;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const f = static_cast<accum<T>>(*factor);
    if (f == 1) return;
    auto const value = element_cast<accum<T>>(x[i]);
    x[i] = f == 0 ? element_cast<T>(accum<T>{0}) : saturated_result<T>(f * value, is_finite(value));
  }
};

/// Divides x by *factor, a power of two.
template <class T>
struct divide_value {
  T* x;
  double const* factor;
  PITH_HD void operator()(std::uint64_t i) const {
    if (*factor != 1) x[i] = element_cast<T>(element_cast<accum<T>>(x[i]) / static_cast<accum<T>>(*factor));
  }
};

/// The ranks' weights in one step, in the executor's memory.
template <executor E>
class rank_weights {
 public:
  rank_weights(E const& exec, unsigned ranks) : memory_(exec, ranks + 3) {}

  /// All ranks call this function, which all-gathers their weights and computes the factors of this rank.
  template <class Comm>
  void agree(E const& exec, Comm& comm, double weight, bool is_narrow) {
    auto* const mine = memory_.data() + 2;
    auto const ranks = comm.size();
    exec.for_each_index(1, set_value<double>{mine, weight});
    comm.all_gather(exec, span_on<E, std::byte const>(bytes(mine), sizeof(double)),
                    span_on<E, std::byte>(bytes(mine + 1), ranks * sizeof(double)))
        .wait(exec);
    exec.for_each_index(1, weight_factors{mine + 1, ranks, comm.rank(), is_narrow, own(), common()});
  }

  double* own() const { return memory_.data(); }
  double* common() const { return memory_.data() + 1; }

 private:
  static std::byte* bytes(double* at) { return reinterpret_cast<std::byte*>(at); }

  buffer<double, E> memory_;  ///< own(), common(), this rank's weight, all ranks' weights
};

/// Divides the residuals and estimates of a state by a power of two in the executor's memory, or multiplies them by it.
/// Each field is a lane.
template <class In, executor E>
struct field_scaler final : field_visitor {
  using recording = typename lanes<E>::recording;

  field_scaler(recording const& w, double const* f, bool divide) : work(w), factor(f), divides(divide) {}

  void describe(field_form const& form) override {
    auto const is_local = form.kind != field_kind::replicated && form.kind != field_kind::learned;
    element = is_local || form.is_of_gradients ? form.element : std::string_view();
  }
  void visit(void* data, std::size_t bytes) override {
    if (element == element_name<accum<In>>()) scale(static_cast<accum<In>*>(data), bytes);
    if (element == element_name<bfloat16>()) scale(static_cast<bfloat16*>(data), bytes);
  }
  template <class T>
  void scale(T* x, std::size_t bytes) const {
    if (divides) return work.next_lane().for_each_index(bytes / sizeof(T), divide_value<T>{x, factor});
    work.next_lane().for_each_index(bytes / sizeof(T), weigh_value<T>{x, factor});
  }

  recording const& work;
  double const* factor;
  bool divides;
  std::string_view element = {};  ///< of the field, or empty if the field is not scaled
};

}}}  // namespace pith::PITH_ABI::detail
