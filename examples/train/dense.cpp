// examples/train/dense.cpp — the products of a dense layer, by Eigen. It is compiled for the processor's basic
// instructions, so that all machines compute the same losses.
#include "layers.hpp"

#include <Eigen/Core>

namespace train {

namespace {

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// `x` as rows of `columns` values.
Eigen::Map<matrix const> rows_of(input x, std::size_t columns) {
  return {x.data(), static_cast<Eigen::Index>(x.size() / columns), static_cast<Eigen::Index>(columns)};
}

Eigen::Map<matrix> rows_of(output x, std::size_t columns) {
  return {x.data(), static_cast<Eigen::Index>(x.size() / columns), static_cast<Eigen::Index>(columns)};
}

}  // namespace

void dense::forward(input x, input w, output y) const {
  auto rows = rows_of(y, outputs_);
  rows.noalias() = rows_of(x, inputs_) * rows_of(weight(w), inputs_).transpose();
  rows.rowwise() += rows_of(bias(w), outputs_).row(0);
}

void dense::backward_weights(input x, input dy, output dw) const {
  rows_of(weight(dw), inputs_).noalias() = rows_of(dy, outputs_).transpose() * rows_of(x, inputs_);
  auto const sum = bias(dw);  // by loops, as the order of the sums in Eigen's colwise().sum() depends on addresses
  std::fill(sum.begin(), sum.end(), 0.0f);
  for (std::size_t row = 0; row < dy.size(); row += outputs_)
    for (std::size_t i = 0; i < outputs_; ++i) sum[i] += dy[row + i];
}

void dense::backward_input(input, input dy, input w, output dx) const {
  rows_of(dx, inputs_).noalias() = rows_of(dy, outputs_) * rows_of(weight(w), inputs_);
}

}  // namespace train
