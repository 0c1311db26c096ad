// device_stages.cu — compiles the stages of codecs for CUDA tensors.
#include "device_codecs.cuh"

namespace pith { inline namespace PITH_ABI {

template any_stage<float, cuda_executor> pith_torch::device_parser<float>::stage<0>(syntax::term const&);
template any_stage<bfloat16, cuda_executor> pith_torch::device_parser<bfloat16>::stage<0>(syntax::term const&);

}}  // namespace pith::PITH_ABI
