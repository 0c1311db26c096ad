// pith/exchange/codec_policy.hpp — which tensor of a model is exchanged by which codec.
#pragma once

#include <pith/codec/any_codec.hpp>
#include <pith/codec/identity.hpp>

#include <concepts>
#include <string>
#include <utility>

namespace pith::inline v0 {

/// A tensor of a model.
struct tensor_spec {
  std::string name;
  shape dims;
};

/// A function of a tensor whose result is, or converts to, the codec that exchanges it.
template <class P, class In, class E>
concept codec_policy_for = requires(P const& policy, tensor_spec const& tensor) {
  { policy(tensor) } -> std::convertible_to<any_codec<In, E>>;
};

/// A policy, or one codec for all tensors.
template <class P, class In, class E>
concept codec_or_policy = codec_policy_for<P, In, E> || std::convertible_to<P const&, any_codec<In, E>>;

/// Fails to compile if `P` chooses no codecs.
template <class P, class In, class E>
constexpr void explain_codec_policy() {
  static_assert(codec_or_policy<P, In, E>,
                "pith: a policy is a codec, or a function of a tensor_spec that returns one; of a text "
                "parse<In>(text) makes the codec");
}

/// The policy that most models want: matrices by `codec`; vectors, which are few and small, as they are.
template <class C>
class matrices {
 public:
  explicit matrices(C codec) : codec_(std::move(codec)) {}

  /// Converts to the codec of one tensor, for any element type and executor that C serves.
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

}  // namespace pith::inline v0
