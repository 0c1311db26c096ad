// examples/language/lstm.hpp — a language model of one LSTM layer, with its gradient.
#pragma once

#include "text.hpp"

#include <pith/core/shape.hpp>
#include <pith/exchange/tensor_spec.hpp>

#include <Eigen/Core>

#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace language {

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The parameters of the model, or their gradients, as matrices of one flat vector.
template <class M>
struct tensors {
  Eigen::Map<M> embedding, input, recurrent, bias, output, output_bias;
};

/// Predicts the next character: h_t, c_t = LSTM(embedding(x_t), h_{t-1}, c_{t-1}), logits = h_t output^T + output_bias
/// (Hochreiter and Schmidhuber 1997, with forget gates). The rows of `input` and `recurrent` are the gates i, f, g, o.
/// Keeps buffers between calls, so each thread needs its own copy.
class lstm {
 public:
  lstm(std::size_t kinds, std::size_t width, std::size_t hidden)
      : kinds_(index(kinds)), width_(index(width)), hidden_(index(hidden)) {}

  std::vector<pith::tensor_spec> specs() const {
    auto const rows = [](Eigen::Index n) { return static_cast<std::uint64_t>(n); };
    return {{"embedding", pith::matrix(rows(kinds_), rows(width_))},
            {"input", pith::matrix(rows(4 * hidden_), rows(width_))},
            {"recurrent", pith::matrix(rows(4 * hidden_), rows(hidden_))},
            {"bias", pith::vector(rows(4 * hidden_))},
            {"output", pith::matrix(rows(kinds_), rows(hidden_))},
            {"output bias", pith::vector(rows(kinds_))}};
  }
  std::size_t size() const {
    std::size_t n = 0;
    for (auto const& tensor : specs()) n += tensor.dims.n;
    return n;
  }

  std::vector<float> initial_parameters(std::uint64_t seed) const {
    auto random = std::mt19937_64(seed);
    auto parameters = std::vector<float>();
    for (auto const& tensor : specs()) {
      auto const scale = tensor.dims.rows == 1 ? 0 : 1 / std::sqrt(static_cast<double>(tensor.dims.columns()));
      for (std::uint64_t i = 0; i < tensor.dims.n; ++i)
        parameters.push_back(
            static_cast<float>(scale * (2 * std::ldexp(static_cast<double>(random() >> 11), -53) - 1)));
    }
    return parameters;
  }

  /// The mean cross-entropy of the next characters, in nats.
  double loss(batch const& x, std::span<float const> parameters) {
    auto const w = in<matrix const>(parameters.data());
    forward(x, w);
    return cross_entropy(x, w);
  }

  /// The loss. Overwrites `gradient` by its gradient with respect to the parameters.
  double gradient(batch const& x, std::span<float const> parameters, std::span<float> gradient) {
    auto const w = in<matrix const>(parameters.data());
    auto d = in<matrix>(gradient.data());
    forward(x, w);
    auto const value = cross_entropy(x, w);
    d.output.noalias() = dlogits_.transpose() * h_.bottomRows(dlogits_.rows());
    d.output_bias = dlogits_.colwise().sum();
    backward(x, w);
    auto const rows = dgates_.rows();
    d.recurrent.noalias() = dgates_.transpose() * h_.topRows(rows);
    d.input.noalias() = dgates_.transpose() * embedded_;
    d.bias = dgates_.colwise().sum();
    embedded_.noalias() = dgates_ * w.input;
    d.embedding.setZero();
    for (Eigen::Index r = 0; r < rows; ++r) d.embedding.row(x.characters[at(r)]) += embedded_.row(r);
    return value;
  }

 private:
  static Eigen::Index index(std::size_t n) { return static_cast<Eigen::Index>(n); }
  static std::size_t at(Eigen::Index i) { return static_cast<std::size_t>(i); }

  template <class M, class T>
  tensors<M> in(T* x) const {
    auto const next = [&](Eigen::Index rows, Eigen::Index columns) {
      auto const part = Eigen::Map<M>(x, rows, columns);
      x += rows * columns;
      return part;
    };
    return {next(kinds_, width_), next(4 * hidden_, width_), next(4 * hidden_, hidden_),
            next(1, 4 * hidden_), next(kinds_, hidden_),     next(1, kinds_)};
  }

  /// The rows [t n, (t + 1) n) of the gates, and the part of one gate.
  auto gate(matrix& gates, Eigen::Index t, Eigen::Index n, Eigen::Index number) const {
    return gates.block(t * n, number * hidden_, n, hidden_).array();
  }

  /// h_ and c_ have the states before each place, and after the last place.
  void forward(batch const& x, tensors<matrix const> const& w) {
    auto const n = index(x.sequences), length = index(x.length);
    embedded_.resize(n * length, width_);
    for (Eigen::Index r = 0; r < n * length; ++r) embedded_.row(r) = w.embedding.row(x.characters[at(r)]);
    gates_.noalias() = embedded_ * w.input.transpose();
    gates_.rowwise() += w.bias.row(0);
    h_.setZero(n * (length + 1), hidden_);
    c_.setZero(n * (length + 1), hidden_);
    for (Eigen::Index t = 0; t < length; ++t) step(t, n, w);
  }
  void step(Eigen::Index t, Eigen::Index n, tensors<matrix const> const& w) {
    gates_.middleRows(t * n, n).noalias() += h_.middleRows(t * n, n) * w.recurrent.transpose();
    for (Eigen::Index const number : {0, 1, 3}) gate(gates_, t, n, number) = gate(gates_, t, n, number).logistic();
    gate(gates_, t, n, 2) = gate(gates_, t, n, 2).tanh();
    auto c = c_.middleRows((t + 1) * n, n).array();
    c = gate(gates_, t, n, 1) * c_.middleRows(t * n, n).array() + gate(gates_, t, n, 0) * gate(gates_, t, n, 2);
    h_.middleRows((t + 1) * n, n).array() = gate(gates_, t, n, 3) * c.tanh();
  }

  /// The loss; dlogits_ becomes its gradient with respect to the logits.
  double cross_entropy(batch const& x, tensors<matrix const> const& w) {
    auto const rows = index(x.next.size());
    dlogits_.noalias() = h_.bottomRows(rows) * w.output.transpose();
    dlogits_.rowwise() += w.output_bias.row(0);
    double sum = 0;
    for (Eigen::Index r = 0; r < rows; ++r) {
      auto row = dlogits_.row(r).array();
      row -= row.maxCoeff();
      auto const right = row(x.next[at(r)]);
      row = row.exp();
      auto const total = row.sum();
      sum += std::log(total) - right;
      row /= total;
      row(x.next[at(r)]) -= 1;
    }
    dlogits_ /= static_cast<float>(rows);
    return sum / static_cast<double>(rows);
  }

  /// dgates_ becomes the gradient with respect to the inputs of the gates.
  void backward(batch const& x, tensors<matrix const> const& w) {
    auto const n = index(x.sequences);
    dgates_.resize(gates_.rows(), gates_.cols());
    dh_.noalias() = dlogits_ * w.output;
    dc_.setZero(n, hidden_);
    for (auto t = index(x.length); t-- > 0;) {
      step_back(t, n);
      if (t > 0) dh_.middleRows((t - 1) * n, n).noalias() += dgates_.middleRows(t * n, n) * w.recurrent;
    }
  }
  void step_back(Eigen::Index t, Eigen::Index n) {
    auto const i = gate(gates_, t, n, 0), f = gate(gates_, t, n, 1), g = gate(gates_, t, n, 2),
               o = gate(gates_, t, n, 3);
    auto const dh = dh_.middleRows(t * n, n).array();
    tanh_c_ = c_.middleRows((t + 1) * n, n).array().tanh();
    auto const y = tanh_c_.array();
    dc_.array() += dh * o * (1 - y.square());
    gate(dgates_, t, n, 0) = dc_.array() * g * i * (1 - i);
    gate(dgates_, t, n, 1) = dc_.array() * c_.middleRows(t * n, n).array() * f * (1 - f);
    gate(dgates_, t, n, 2) = dc_.array() * i * (1 - g.square());
    gate(dgates_, t, n, 3) = dh * y * o * (1 - o);
    dc_.array() *= f;
  }

  Eigen::Index kinds_, width_, hidden_;
  matrix embedded_, gates_, h_, c_, dlogits_, dgates_, dh_, dc_, tanh_c_;
};

}  // namespace language
