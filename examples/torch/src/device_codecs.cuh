// device_codecs.cuh — the codecs of CUDA tensors. The methods are those of README's table, to limit the compile time.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/collective/reduce_scatter.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/feedback/residual.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/registry/parser.hpp>
#include <pith/sparsify/top_k.hpp>

#include <tuple>

namespace pith_torch {

/// The methods that codecs of CUDA tensors may name, besides ef and bypass.
struct device_methods {
  static constexpr auto stages = std::tuple(
      pith::method("identity", 0, 0, "every element uncompressed", {"identity"},
                   [](auto const&, auto const& f) { return f(pith::identity()); }),
      pith::method("cast<bfloat16>", 0, 0, "every element in 16 bits", {"cast<bfloat16>"},
                   [](auto const&, auto const& f) { return f(pith::cast<pith::bfloat16>()); }),
      pith::method("qsgd<8>", 0, 0, "random rounding to 8 bits", {"qsgd<8>"},
                   [](auto const&, auto const& f) { return f(pith::qsgd<8>()); }),
      pith::method("block_int<4>", 0, 0, "multiples of a scale of 128 elements, in 4 bits", {"block_int<4>"},
                   [](auto const&, auto const& f) { return f(pith::block_int<4>()); }),
      pith::method("block_int<8>", 0, 0, "multiples of a scale of 128 elements, in 8 bits", {"block_int<8>"},
                   [](auto const&, auto const& f) { return f(pith::block_int<8>()); }),
      pith::method("scaled_sign", 0, 0, "signs, and their mean magnitude", {"scaled_sign"},
                   [](auto const&, auto const& f) { return f(pith::scaled_sign()); }),
      pith::method("top_k", 1, 1, "the largest magnitudes", {"top_k(0.01)"},
                   [](auto const& t, auto const& f) { return f(pith::top_k(t.number(0))); }),
      pith::method("power_sgd", 1, 1, "a product of two thin matrices", {"power_sgd(4)"},
                   [](auto const& t, auto const& f) { return f(pith::power_sgd(t.template count<unsigned>(0))); }));
  static constexpr auto exchanges =
      std::tuple(pith::method("two_shot(c)", 1, 2, "each rank adds up a part of the tensor", {"two_shot(qsgd<8>)"},
                              [](auto const& t, auto parser, auto const& f) {
                                auto const& of_mean = t.arguments[t.has(1) ? 1 : 0];
                                return f(pith::two_shot(parser.chain(t.arguments[0]), parser.codec(of_mean)));
                              }),
                 pith::method("reduce_scatter(c)", 1, 1, "each rank receives the mean of its shard",
                              {"ef(reduce_scatter(qsgd<8>))"}, [](auto const& t, auto parser, auto const& f) {
                                return f(pith::reduce_scatter(parser.chain(t.arguments[0])));
                              }));
  static constexpr auto policies =
      std::tuple(pith::method("residual", 0, 0, "the error of a step is added to the next gradient",
                              {"ef(top_k(0.01),residual)"}, [](auto const&, auto) { return pith::residual(); }));
};

template <class In>
using device_parser = pith::parser<In, pith::cuda_executor, device_methods>;

}  // namespace pith_torch

// Each part of the parser is compiled in a source file of its own. For bfloat16, the codec inside error feedback encodes
// floats, so the parser of bfloat16 uses the chains of float.
namespace pith { inline namespace PITH_ABI {

extern template any_stage<float, cuda_executor> pith_torch::device_parser<float>::stage<0>(syntax::term const&);
extern template any_stage<bfloat16, cuda_executor> pith_torch::device_parser<bfloat16>::stage<0>(syntax::term const&);

}}  // namespace pith::PITH_ABI
