// cmake/runtime/compiled.hpp — the types that the library pith::runtime compiles.
#pragma once

#include <pith/exec/par.hpp>
#include <pith/parse.hpp>
#include <pith/runtime/any_codec.hpp>
#include <pith/runtime/executor.hpp>

namespace pith { inline namespace PITH_ABI {

namespace runtime {

/// Without a runner, this executor uses only the calling thread. The results equal those of seq.
using host = par_executor<any_runner>;

inline host host_of(executor const& exec) { return exec.runner() ? par(*exec.runner()) : host(); }

template <class In>
struct any_codec<In>::compiled {
  pith::any_codec<In, host> codec;
};

}  // namespace runtime

// Each part of `parse` is compiled in a source file of its own. For bfloat16, the codec inside error feedback encodes
// floats, so the parser of bfloat16 uses the chains of float.
template <class In>
using runtime_parser = parser<In, runtime::host, all_methods>;
static_assert(
    runtime_parser<float>::stages_per_part == 9 && runtime_parser<float>::stages.size() <= 36,
    "pith::runtime: add the sources of one more part of the stages, and list them here and in pith-components.cmake");

extern template any_stage<float, runtime::host> runtime_parser<float>::stage<0>(syntax::term const&);
extern template any_stage<float, runtime::host> runtime_parser<float>::stage<9>(syntax::term const&);
extern template any_stage<float, runtime::host> runtime_parser<float>::stage<18>(syntax::term const&);
extern template any_stage<float, runtime::host> runtime_parser<float>::stage<27>(syntax::term const&);
extern template any_chain<float, runtime::host> runtime_parser<float>::chain(syntax::pipeline const&);
extern template any_codec<float, runtime::host> runtime_parser<float>::fed_back(syntax::term const&);
extern template any_codec<float, runtime::host> runtime_parser<float>::codec(syntax::pipeline const&);
extern template any_stage<bfloat16, runtime::host> runtime_parser<bfloat16>::stage<0>(syntax::term const&);
extern template any_stage<bfloat16, runtime::host> runtime_parser<bfloat16>::stage<9>(syntax::term const&);
extern template any_stage<bfloat16, runtime::host> runtime_parser<bfloat16>::stage<18>(syntax::term const&);
extern template any_stage<bfloat16, runtime::host> runtime_parser<bfloat16>::stage<27>(syntax::term const&);
extern template any_chain<bfloat16, runtime::host> runtime_parser<bfloat16>::chain(syntax::pipeline const&);
extern template any_codec<bfloat16, runtime::host> runtime_parser<bfloat16>::fed_back(syntax::term const&);
extern template any_codec<bfloat16, runtime::host> runtime_parser<bfloat16>::codec(syntax::pipeline const&);

}}  // namespace pith::PITH_ABI
