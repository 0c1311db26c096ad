// cmake/runtime/gradient_exchange.cpp — compiles gradient exchanges.
#include <pith/comm/any_communicator.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/runtime/gradient_exchange.hpp>
#include "compiled.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace runtime {

namespace {

template <class In>
std::vector<pith::any_codec<In, host>> unwrapped(std::vector<any_codec<In>> const& codecs) {
  auto all = std::vector<pith::any_codec<In, host>>();
  for (auto const& c : codecs) all.push_back(c.get().codec);
  return all;
}

}  // namespace

template <class In>
struct gradient_exchange<In>::compiled {
  std::shared_ptr<any_runner> runner;
  std::vector<codec_type> codecs;
  pith::gradient_exchange<In, host, any_communicator> made;

  /// The exchange calls the policy inside its constructor. If the policy throws, the other ranks throw agreement_error.
  template <class Policy>
  compiled(executor const& exec, any_communicator& comm, std::vector<tensor_spec> tensors, Policy const& policy,
           exchange_options const& options)
      : runner(exec.runner()),
        made(
            host_of(exec), comm, std::move(tensors),
            [&](tensor_spec const& tensor) { return codecs.emplace_back(policy(tensor)).get().codec; }, options) {}
};

template <class In>
gradient_exchange<In>::gradient_exchange(executor const& exec, any_communicator& comm, std::vector<tensor_spec> tensors,
                                         std::function<codec_type(tensor_spec const&)> const& policy,
                                         exchange_options const& options)
    : compiled_(new compiled(exec, comm, std::move(tensors), policy, options)) {}
template <class In>
gradient_exchange<In>::gradient_exchange(executor const& exec, any_communicator& comm, std::vector<tensor_spec> tensors,
                                         std::vector<codec_type> const& codecs, exchange_options const& options) {
  auto const expected = tensors.size();
  auto next = codecs.begin();
  auto const policy = [&](tensor_spec const&) {
    pith::detail::require_size("gradient_exchange", "codecs", expected, codecs.size(), " entries");
    return *next++;
  };
  compiled_.reset(new compiled(exec, comm, std::move(tensors), policy, options));
}
template <class In>
gradient_exchange<In>::gradient_exchange(executor const& exec, any_communicator& comm, std::vector<tensor_spec> tensors,
                                         codec_type const& codec, exchange_options const& options)
    : gradient_exchange(
          exec, comm, std::move(tensors), [&codec](tensor_spec const&) { return codec; }, options) {}
template <class In>
gradient_exchange<In>::gradient_exchange(gradient_exchange&&) noexcept = default;
template <class In>
gradient_exchange<In>& gradient_exchange<In>::operator=(gradient_exchange&&) noexcept = default;
template <class In>
gradient_exchange<In>::~gradient_exchange() = default;

template <class In>
std::vector<tensor_spec> const& gradient_exchange<In>::tensors() const {
  return compiled_->made.tensors();
}
template <class In>
std::vector<any_codec<In>> const& gradient_exchange<In>::codecs() const {
  return compiled_->codecs;
}
template <class In>
std::uint64_t gradient_exchange<In>::size() const {
  return compiled_->made.size();
}
template <class In>
std::size_t gradient_exchange<In>::buckets() const {
  return compiled_->made.buckets();
}
template <class In>
std::size_t gradient_exchange<In>::bucket_of(std::size_t tensor) const {
  return compiled_->made.bucket_of(tensor);
}
template <class In>
pith::traffic gradient_exchange<In>::traffic() const {
  return compiled_->made.traffic();
}
template <class In>
void gradient_exchange<In>::all_reduce_mean(span<In> gradients, double weight) {
  compiled_->made.all_reduce_mean(gradients, weight);
}
template <class In>
void gradient_exchange<In>::begin(span<In> gradients, double weight) {
  compiled_->made.begin(gradients, weight);
}
template <class In>
void gradient_exchange<In>::begin(double weight) {
  compiled_->made.begin(weight);
}
template <class In>
void gradient_exchange<In>::ready(std::size_t tensor) {
  compiled_->made.ready(tensor);
}
template <class In>
void gradient_exchange<In>::ready(std::size_t tensor, span<In> gradient) {
  compiled_->made.ready(tensor, gradient);
}
template <class In>
void gradient_exchange<In>::wait() {
  compiled_->made.wait();
}
template <class In>
void gradient_exchange<In>::skip() {
  compiled_->made.skip();
}
template <class In>
void gradient_exchange<In>::abandon() {
  compiled_->made.abandon();
}
template <class In>
bool gradient_exchange<In>::has_failed() const {
  return compiled_->made.has_failed();
}
template <class In>
void gradient_exchange<In>::change(std::vector<codec_type> const& codecs) {
  auto next = codecs;
  compiled_->made.change(unwrapped<In>(codecs));
  compiled_->codecs = std::move(next);
}
template <class In>
void gradient_exchange<In>::rescale(double factor) {
  compiled_->made.rescale(factor);
}
template <class In>
void gradient_exchange<In>::fit_buckets() {
  compiled_->made.fit_buckets();
}
template <class In>
void gradient_exchange<In>::measure_errors(span<In const> gradients) {
  compiled_->made.measure_errors(gradients);
}
template <class In>
exchange_report gradient_exchange<In>::report() const {
  return compiled_->made.report();
}
template <class In>
std::vector<float> gradient_exchange<In>::fed_back(std::size_t tensor) const {
  return compiled_->made.fed_back(tensor);
}
template <class In>
std::vector<std::byte> gradient_exchange<In>::export_state(unsigned steps_back) const {
  return compiled_->made.export_state(steps_back);
}
template <class In>
void gradient_exchange<In>::import_state(span<std::byte const> bytes) {
  compiled_->made.import_state(bytes);
}
template <class In>
void gradient_exchange<In>::import_state(span<std::byte const> bytes, std::vector<codec_type> const& codecs) {
  auto next = codecs;
  compiled_->made.import_state(bytes, unwrapped<In>(codecs));
  compiled_->codecs = std::move(next);
}

template class gradient_exchange<float>;
#if !defined(PITH_RUNTIME_WITHOUT_BFLOAT16)
template class gradient_exchange<bfloat16>;
#endif

}}}  // namespace pith::PITH_ABI::runtime
