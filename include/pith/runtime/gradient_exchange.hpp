// pith/runtime/gradient_exchange.hpp — a compiled exchange of a model's gradients.
#pragma once

#include <pith/core/span.hpp>
#include <pith/exchange/exchange_options.hpp>
#include <pith/exchange/exchange_report.hpp>
#include <pith/exchange/tensor_spec.hpp>
#include <pith/exchange/traffic.hpp>
#include <pith/runtime/any_codec.hpp>
#include <pith/runtime/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace pith { inline namespace PITH_ABI {

class any_communicator;

namespace runtime {

/// A pith::gradient_exchange in the library pith::runtime. The member functions have the contracts of
/// pith::gradient_exchange. Controllers (pith/control) need pith::gradient_exchange.
///
///   requires    In is float or bfloat16. The any_communicator and its transport must outlive the exchange
///   complexity  one call into the library per member function call, a few virtual calls per collective operation; a
///               step does not allocate. After a failed step, the exchange keeps its buffers until the program ends
///   properties  means and states equal those of pith::gradient_exchange with the same codecs and options. Each of the
///               two classes can import a state that the other exports
template <class In>
class gradient_exchange {
 public:
  using codec_type = any_codec<In>;

  /// `policy(tensor)` returns the codec of a tensor. The exchange does not store the policy.
  gradient_exchange(executor const& exec, any_communicator& comm, std::vector<tensor_spec> tensors,
                    std::function<codec_type(tensor_spec const&)> const& policy, exchange_options const& options = {});
  /// Makes an exchange with one codec per tensor.
  gradient_exchange(executor const& exec, any_communicator& comm, std::vector<tensor_spec> tensors,
                    std::vector<codec_type> const& codecs, exchange_options const& options = {});
  /// Makes an exchange with one codec for all tensors.
  gradient_exchange(executor const& exec, any_communicator& comm, std::vector<tensor_spec> tensors,
                    codec_type const& codec, exchange_options const& options = {});
  gradient_exchange(gradient_exchange&&) noexcept;
  gradient_exchange& operator=(gradient_exchange&&) noexcept;
  ~gradient_exchange();

  std::vector<tensor_spec> const& tensors() const;
  std::vector<codec_type> const& codecs() const;
  std::uint64_t size() const;
  std::size_t buckets() const;
  std::size_t bucket_of(std::size_t tensor) const;
  pith::traffic traffic() const;

  void all_reduce_mean(span<In> gradients, double weight = 1);

  void begin(span<In> gradients, double weight = 1);
  void begin(double weight = 1);
  void ready(std::size_t tensor);
  void ready(std::size_t tensor, span<In> gradient);
  void wait();
  void skip();
  void abandon();
  bool has_failed() const;

  void change(std::vector<codec_type> const& codecs);
  void rescale(double factor);
  void fit_buckets();
  void measure_errors(span<In const> gradients);
  exchange_report report() const;
  std::vector<float> fed_back(std::size_t tensor) const;

  std::vector<std::byte> export_state(unsigned steps_back = 0) const;
  void import_state(span<std::byte const> bytes);
  void import_state(span<std::byte const> bytes, std::vector<codec_type> const& codecs);

 private:
  struct compiled;
  std::unique_ptr<compiled> compiled_;
};

}  // namespace runtime
}}  // namespace pith::PITH_ABI
