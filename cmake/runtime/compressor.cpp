// cmake/runtime/compressor.cpp — compiles compressors.
#include <pith/codec/compressor.hpp>
#include <pith/runtime/compressor.hpp>
#include "compiled.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace runtime {

template <class In>
struct compressor<In>::compiled {
  std::shared_ptr<any_runner> runner;
  pith::compressor<In, pith::any_codec<In, host>, host> made;
};

template <class In>
compressor<In>::compressor(executor const& exec, any_codec<In> const& codec, shape const& dims, tensor_id const& owner)
    : compiled_(new compiled{exec.runner(), {host_of(exec), codec.get().codec, dims, owner}}) {}
template <class In>
compressor<In>::compressor(compressor&&) noexcept = default;
template <class In>
compressor<In>& compressor<In>::operator=(compressor&&) noexcept = default;
template <class In>
compressor<In>::~compressor() = default;

template <class In>
span<std::byte const> compressor<In>::compress(span<In const> x) {
  return compiled_->made.compress(x);
}
template <class In>
void compressor<In>::decompress(span<std::byte const> payload, span<In> x, std::uint16_t from, std::uint64_t step) {
  compiled_->made.decompress(payload, x, from, step);
}
template <class In>
void compressor<In>::decompress(span<std::byte const> payload, span<In> x, std::uint16_t from) {
  compiled_->made.decompress(payload, x, from);
}
template <class In>
void compressor<In>::decompress(span<std::byte const> payload, span<In> x) {
  compiled_->made.decompress(payload, x);
}
template <class In>
span<std::byte const> compressor<In>::payload() const {
  return compiled_->made.payload();
}
template <class In>
std::uint64_t compressor<In>::step() const {
  return compiled_->made.step();
}
template <class In>
std::vector<std::byte> compressor<In>::export_state() {
  return compiled_->made.export_state();
}
template <class In>
void compressor<In>::import_state(span<std::byte const> bytes) {
  compiled_->made.import_state(bytes);
}
template <class In>
shape const& compressor<In>::dims() const {
  return compiled_->made.dims();
}

template class compressor<float>;
#if !defined(PITH_RUNTIME_WITHOUT_BFLOAT16)
template class compressor<bfloat16>;
#endif

}}}  // namespace pith::PITH_ABI::runtime
