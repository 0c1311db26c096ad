// cmake/runtime/any_codec.cpp — compiles the functions of codecs.
#include "compiled.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace pith { inline namespace PITH_ABI { namespace runtime {

namespace {

template <class In>
any_codec<In> wrapped(pith::any_codec<In, host> codec) {
  using compiled = typename any_codec<In>::compiled;
  return any_codec<In>(std::make_shared<compiled const>(compiled{std::move(codec)}));
}

}  // namespace

template <class In>
std::string any_codec<In>::name() const {
  return get().codec.name();
}
template <class In>
std::size_t any_codec<In>::payload_bytes(shape const& dims) const {
  return pith::payload_bytes<In>(get().codec, dims);
}
template <class In>
capabilities any_codec<In>::capabilities_for(shape const& dims) const {
  return get().codec.capabilities_for(dims);
}
template <class In>
bool any_codec<In>::has_rate() const {
  return get().codec.has_rate();
}
template <class In>
any_codec<In> any_codec<In>::at(double rate) const {
  return wrapped<In>(get().codec.at(rate));
}

template <class In>
any_codec<In> parse(std::string_view text) {
  return wrapped<In>(pith::parse<In, host>(text));
}

template class any_codec<float>;
template any_codec<float> parse(std::string_view);
#if !defined(PITH_RUNTIME_WITHOUT_BFLOAT16)
template class any_codec<bfloat16>;
template any_codec<bfloat16> parse(std::string_view);
#endif

}}}  // namespace pith::PITH_ABI::runtime
