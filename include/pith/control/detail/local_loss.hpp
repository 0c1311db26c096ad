// pith/control/detail/local_loss.hpp — the relative error of compression, measured on a rank's own gradients.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/codec/measured.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/detail/summation.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

struct set_step {
  std::uint64_t* step;
  std::uint64_t value;
  PITH_HD void operator()(std::uint64_t) const { *step = value; }
};

/// A function object that returns sqrt(sum |g - D(C(g))|^2 / sum |g|^2), summed over the tensors that were passed to
/// `add()`. The loss of a gradient of zeros is 0 if it is decoded to zeros, and otherwise infinite. Each tensor has its own
/// codec, whose random numbers depend on `step`. A call encodes and decodes each of these tensors, and waits once on the
/// host.
template <real In, executor E, class C>
class local_loss {
 public:
  explicit local_loss(E const& exec) : exec_(exec) {}

  void add(C codec, shape const& dims, std::size_t tensor) {
    auto state = make_state<In>(exec_, codec, dims);
    payload_.grow(exec_, payload_bytes<In>(codec, dims));
    decoded_.grow(exec_, dims.n);
    scratch_.grow(exec_, std::max(workspace_bytes<In>(exec_, codec, dims),
                                  reduce_scratch_bytes<double>(dims.n) + scratch_alignment));
    parts_.push_back({std::move(codec), std::move(state), tensor});
    sums_.grow(exec_, std::bit_ceil(2 * parts_.size()));
    seen_.resize(2 * parts_.size());
  }

  /// `gradients` has the addresses of all gradients, by tensor.
  double operator()(In const* const* gradients, std::uint64_t step) {
    auto ws = workspace_on<E>(scratch_.view());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      exec_.for_each_index(1, set_step{parts_[i].state.steps(), step});
      add_squares(parts_[i], gradients[parts_[i].tensor], sums_.data() + 2 * i, ws);
    }
    exec_.download(seen_.data(), sums_.data(), seen_.size() * sizeof(double));
    double lost = 0, all = 0;
    for (std::size_t i = 0; i < seen_.size(); i += 2) lost += seen_[i], all += seen_[i + 1];
    return lost == 0 ? 0 : std::sqrt(lost / all);
  }

 private:
  struct part {
    C codec;
    codec_state<In, C, E> state;
    std::size_t tensor;
  };

  void add_squares(part& p, In const* gradient, double* to, workspace_on<E>& ws) {
    auto const n = p.state.dims().n;
    auto const g = span_on<E, In const>(gradient, n);
    auto const y = decoded_.view().first(n);
    compress<In>(exec_, p.codec, g, payload_.view(), p.state, ws);
    decompress<In>(exec_, p.codec, span_on<E, std::byte const>(payload_.view()), y, p.state, ws);
    reduce_into(exec_, to, n, square_of_difference<In>{g.data(), y.data()}, plus(), 0.0, ws);
    reduce_into(exec_, to + 1, n, square_of<In>{g.data()}, plus(), 0.0, ws);
  }

  E exec_;
  std::vector<part> parts_;
  buffer<std::byte, E> payload_, scratch_;
  buffer<In, E> decoded_;
  buffer<double, E> sums_;
  std::vector<double> seen_;  ///< host copy of sums_
};

}}}  // namespace pith::PITH_ABI::detail
