// examples/train/codec_of.cpp — all codecs of the program, which take most of its compile time.
#include "codec_of.hpp"

#include "reference_codecs.hpp"

#include <pith/parse.hpp>

extern template pith::any_chain<float, pith::seq_executor>
pith::parser<float, pith::seq_executor, pith::all_methods>::chain(pith::syntax::pipeline const&);

namespace train {

any_codec codec_of(std::string_view text) {
  auto const method = reference_codec(text);
  return method ? *method : pith::parse<float>(text);
}

}  // namespace train
