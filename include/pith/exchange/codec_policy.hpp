// pith/exchange/codec_policy.hpp — codec policies: functions from a model's tensors to codecs.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/exchange/tensor_spec.hpp>

#include <concepts>
#include <utility>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// A codec policy is a function that maps a tensor to a codec, or to an object that converts to `any_codec`.
template <class P, class In, class E>
concept codec_policy_for = requires(P const& policy, tensor_spec const& tensor) {
  { policy(tensor) } -> std::convertible_to<any_codec<In, E>>;
};

/// A codec policy, or one codec for all tensors.
template <class P, class In, class E>
concept codec_or_policy = codec_policy_for<P, In, E> || std::convertible_to<P const&, any_codec<In, E>>;

/// A function of a tensor_spec that returns the codec of a codec_or_policy, which must outlive the function.
template <class In, class E, codec_or_policy<In, E> P>
auto policy_of(P const& policy) {
  if constexpr (codec_policy_for<P, In, E>) {
    return [&policy](tensor_spec const& tensor) -> any_codec<In, E> { return policy(tensor); };
  } else {
    return [codec = any_codec<In, E>(policy)](tensor_spec const&) { return codec; };
  }
}

}  // namespace detail

/// Fails to compile unless `P` is a codec or a codec policy.
template <class P, class In, class E>
constexpr void explain_codec_policy() {
  static_assert(detail::codec_or_policy<P, In, E>,
                "pith: a codec policy is a codec of this executor, or a function of a tensor_spec that returns one; "
                "parse<In>(exec, text) returns the codec of a text");
}

/// The usual codec policy: `codec` compresses matrices. Vectors are sent uncompressed, since they contain only a small
/// share of a model's elements.
template <class C>
class matrices {
 public:
  explicit matrices(C codec) : codec_(std::move(codec)) {}

  /// The result of the policy for one tensor. A `choice` converts to any_codec<In, E> for any element type and executor
  /// that C supports. A `choice` contains a reference to the policy's codec.
  struct choice {
    template <real In, executor E>
    operator any_codec<In, E>() const {
      if (dense) return identity();
      return codec;
    }
    bool dense;
    C const& codec;
  };
  choice operator()(tensor_spec const& tensor) const { return {tensor.dims.rows <= 1, codec_}; }

 private:
  C codec_;
};

}}  // namespace pith::PITH_ABI
