// exchange_hooks.hpp — averages the gradients of a libtorch model over the ranks, during backward. Copy it.
#pragma once

#include <pith/comm/any_communicator.hpp>
#include <pith/runtime.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace pith_libtorch {

/// The parameters of a model with their names, in the order of forward, as named_parameters() returns them.
using named_tensors = torch::OrderedDict<std::string, torch::Tensor>;

/// A function that returns the text of a tensor's codec.
using codec_texts = std::function<std::string(pith::tensor_spec const&)>;

/// Matrices by the codec, vectors uncompressed.
inline codec_texts matrices(std::string codec) {
  return [codec = std::move(codec)](pith::tensor_spec const& tensor) {
    return tensor.dims.rows > 1 ? codec : std::string("identity");
  };
}

/// One row per entry of the first dimension: per output feature, output channel or token.
inline pith::tensor_spec spec_of(std::string name, torch::Tensor const& parameter) {
  auto const n = static_cast<std::uint64_t>(parameter.numel());
  if (parameter.dim() < 2) return {std::move(name), pith::vector(n)};
  auto const rows = static_cast<std::uint64_t>(parameter.size(0));
  return {std::move(name), pith::matrix(rows, n / rows)};
}

/// Makes every gradient a part of one buffer of zeros, and returns the buffer. The gradients are no views for autograd,
/// so that optimizers may call zero_grad().
inline torch::Tensor lay_flat(std::vector<torch::Tensor> const& of) {
  std::int64_t n = 0;
  for (auto const& p : of) n += p.numel();
  auto buffer = torch::zeros({n}, of.at(0).options().requires_grad(false));
  n = 0;
  for (auto p : of) {
    p.mutable_grad() = buffer.narrow(0, n, p.numel()).view(p.sizes()).variable_data();
    n += p.numel();
  }
  return buffer;
}

/// The location of the gradients.
enum class layout : std::uint8_t {
  flat,       ///< one buffer. Backward adds to it, so zero_grad() fills it with zeros
  scattered,  ///< a tensor per parameter. Backward makes it, so zero_grad() releases it
};

struct hook_options {
  layout gradients = layout::flat;
  bool is_overlapped = true;  ///< false: the exchange begins after backward
  pith::exchange_options exchange = {};
};

/// A hook of autograd that calls a function.
class calling_hook final : public torch::autograd::FunctionPostHook {
 public:
  explicit calling_hook(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(torch::autograd::variable_list const& outputs,
                                            torch::autograd::variable_list const&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

/// Replaces the gradients of a model by their means over the ranks. A hook of each parameter passes the gradient to the
/// exchange as soon as backward has added it up.
///
///     hooks.zero_grad();
///     hooks.accumulate(loss_of(part));       // all micro-steps but the last: gradients add up, nothing is sent
///     hooks.backward(loss_of(last_part));    // the gradients are now means, equal on all ranks
///     optimizer.step();
///
///   requires    In is float, or pith::bfloat16 for parameters of kBFloat16. All ranks have equal parameters, in the
///               same order. The communicator and the trace in the options outlive this object. One thread runs
///               backward, which is the case on a CPU
///   owns        the exchange and its state. The gradients own their memory. An undefined gradient counts as 0
///   errors      std::invalid_argument, and those of pith::gradient_exchange. If backward throws on a rank, this rank
///               gives up the step. The other ranks throw pith::communication_error after the communicator's timeout
template <class In, class Exchange = pith::runtime::gradient_exchange<In>>
class exchange_hooks {
 public:
  using element = std::conditional_t<std::is_same_v<In, float>, float, at::BFloat16>;

  exchange_hooks(pith::any_communicator& comm, named_tensors const& of, codec_texts const& codec_of,
                 hook_options const& options = {})
      : exchange_hooks(
            of,
            [&](std::vector<pith::tensor_spec> tensors) {
              auto const parsed = [&](auto const& tensor) { return pith::runtime::parse<In>(codec_of(tensor)); };
              return Exchange(pith::runtime::executor(), comm, std::move(tensors), parsed, options.exchange);
            },
            options) {}

  /// `make(tensors)` returns the exchange, for example a pith::adaptive_exchange.
  template <class Make>
  exchange_hooks(named_tensors const& of, Make const& make, hook_options const& options)
      : options_(options), trained_(trained(of)), tensors_(specs(of)), exchange_(make(tensors_)) {
    if (options.gradients == layout::flat) lay_flat(trained_);
    if (options.is_overlapped) add_hooks();
  }
  exchange_hooks(exchange_hooks&&) = delete;
  ~exchange_hooks() {
    for (auto const& [node, hook] : hooks_) node->del_post_hook(hook);
  }

  void zero_grad() {
    for (auto& p : trained_) {
      if (options_.gradients == layout::scattered) p.mutable_grad().reset();
      if (p.grad().defined()) p.mutable_grad().zero_();
    }
  }
  void accumulate(torch::Tensor const& loss) { loss.backward(); }
  void backward(torch::Tensor const& loss) {
    try {
      begin();
      loss.backward();
      wait();
    } catch (...) {
      is_in_step_ = false;
      exchange_.abandon();
      throw;
    }
  }

  /// For reports, checkpoints and fit_buckets(), between steps.
  Exchange& exchange() { return exchange_; }
  Exchange const& exchange() const { return exchange_; }

 private:
  /// Checks what reading a gradient through its address needs.
  static void require_readable(std::string const& name, torch::Tensor const& p) {
    if (p.layout() != torch::kStrided || !p.is_cpu() || !p.is_contiguous() ||
        p.scalar_type() != c10::CppTypeToScalarType<element>::value)
      throw std::invalid_argument("exchange_hooks: " + name + " must be dense, contiguous, on the CPU and of type " +
                                  c10::toString(c10::CppTypeToScalarType<element>::value) + ", got " + p.toString());
  }
  static std::vector<torch::Tensor> trained(named_tensors const& of) {
    auto all = std::vector<torch::Tensor>();
    for (auto const& p : of) {
      if (!p.value().requires_grad()) continue;
      require_readable(p.key(), p.value());
      all.push_back(p.value());
    }
    if (all.empty()) throw std::invalid_argument("exchange_hooks: a parameter must require a gradient, got none");
    return all;
  }
  static std::vector<pith::tensor_spec> specs(named_tensors const& of) {
    auto all = std::vector<pith::tensor_spec>();
    for (auto const& p : of)
      if (p.value().requires_grad()) all.push_back(spec_of(p.key(), p.value()));
    return all;
  }

  /// The node that adds up a gradient lives as long as this object holds it.
  void add_hooks() {
    for (std::size_t i = 0; i < trained_.size(); ++i) {
      auto node = torch::autograd::impl::grad_accumulator(trained_[i]);
      auto const hook = node->add_post_hook(std::make_unique<calling_hook>([this, i] {
        if (is_in_step_) ready(i);
      }));
      hooks_.emplace_back(std::move(node), hook);
    }
  }
  void begin() {
    exchange_.begin();
    is_ready_.assign(trained_.size(), false);
    is_in_step_ = true;
  }
  /// An undefined gradient counts as 0.
  void ready(std::size_t i) {
    auto& gradient = trained_[i].mutable_grad();
    if (!gradient.defined()) gradient = torch::zeros_like(trained_[i]);
    require_readable("the gradient of " + tensors_[i].name, gradient);
    exchange_.ready(i, {reinterpret_cast<In*>(gradient.data_ptr<element>()), tensors_[i].dims.n});
    is_ready_[i] = true;
  }
  void wait() {
    is_in_step_ = false;
    for (std::size_t i = 0; i < trained_.size(); ++i) {
      if (!is_ready_[i]) ready(i);
    }
    exchange_.wait();
  }

  hook_options options_;
  std::vector<torch::Tensor> trained_;
  std::vector<pith::tensor_spec> tensors_;
  Exchange exchange_;
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, std::uintptr_t>> hooks_;
  std::vector<bool> is_ready_;
  bool is_in_step_ = false;
};

}  // namespace pith_libtorch
