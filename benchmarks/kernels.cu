// benchmarks/kernels.cu — one kernel of each kind, whose resources benchmarks/kernels.sh counts; never run.
//
// The comment above a kernel has its minimal traffic in bytes per element, the instructions per element of a kernel
// written by hand, if there is one, and the loops of its usual path: the number of elements and their accesses. `all`
// stands for the accesses of the whole kernel. top_k_collect has no loop, but two variants of 32 elements each: for
// whole blocks and for the last block.
#include <pith/codec/detail/entry_sum.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/detail/last_block.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/sparsify/detail/candidates.hpp>
#include <pith/sparsify/detail/radix_select.hpp>

using namespace pith::detail;

namespace {

constexpr auto span = pith::cuda_executor::items_per_block;
using plain = plain_source<float>;
using fed_back = residual_source<float>;
using sink = tensor_sink<float>;

}  // namespace

//   bytes    4.125
//   by_hand  2.5
//   pack     8: 2 LDG.128 STG.8
struct sign_encode : quantize_part<sign_rule, plain, float, span> {};

//   bytes    4.125
//   by_hand  6
//   measure  8: 2 LDG.128 STG.8
struct scaled_sign_measure : measure_tiles<scaled_sign_rule, plain, float, span> {};

//   bytes    5
//   by_hand  10.6
//   measure  4: 4 LDG.32 STS.64
//   code     8: LDG.64 2 LDG.128 LDS.64 STG.64
struct qsgd8_encode : quantize_buckets<qsgd_rule<8>, plain, float, span> {};

//   bytes    4.5
//   by_hand  12.8
//   measure  4: 4 LDG.32 STS.64
//   code     8: LDG.64 2 LDG.128 LDS.64 STG.32
struct qsgd4_encode : quantize_buckets<qsgd_rule<4>, plain, float, span> {};

//   bytes    13
//   by_hand  16.5
//   load     8: 4 LDG.128 2 STS.128
//   measure  4: 4 LDS.32 STS.64
//   code     8: LDG.64 LDS.64 2 LDS.128 LDS.32 STG.64 2 STS.128
//   keep     8: 4 LDG.128 2 LDS.128 2 STG.128
struct ef_qsgd8_encode : quantize_buckets<qsgd_rule<8>, fed_back, float, span> {};

//   bytes    8
//   by_hand  14.8
//   sum      8: 4 LDG.64 4 LDG.32
struct qsgd8_decode_sum4 : dequantize_block<qsgd_rule<8>, sink, float, span> {};

//   bytes    4.5
//   by_hand  14.8
//   sum      8: 4 LDG.8 4 LDG.32
struct scaled_sign_decode_sum4 : dequantize_block<scaled_sign_rule, sink, float, span> {};

//   bytes    4
//   by_hand  4.3
//   count_into  8: 2 LD.128
struct top_k_digits : with_last_block<count_digits<plain>, fix_digit<plain>> {};

//   bytes    4.08
//   collect  64: all
struct top_k_collect : with_last_block<collect_candidates<plain>, order_candidates<plain>> {};

//   bytes    4
//   count    8: 2 LDG.32 16 LD.32 2 STS.32 4 LDS.128 2 LDS.32
struct top_k_place : with_last_block<count_kept<plain>, place_kept<plain>> {};

//   bytes    4
//   collect  8: 5 LDG.32 8 LD.32 2 LD.128 STS.32 2 LDS.128 LDS.32
//   equal    8: 8 LDS.32 8 LD.32 STS.32 2 LDS.128
struct top_k_emit : emit_kept<plain, float> {};

//   bytes    4.32
//   clear    4: 4 STS.32
//   write    4: 4 LDS.32 4 STG.32
struct top_k_decode_sum4 : add_entries<float> {};

//   bytes    6
//   convert  8: 2 LDG.128 STG.128
struct bfloat16_cast : index_runs<convert<pith::bfloat16, float>> {};

namespace pith { inline namespace PITH_ABI { namespace detail {

template __global__ void block_kernel(sign_encode const);
template __global__ void block_kernel(scaled_sign_measure const);
template __global__ void block_kernel(qsgd8_encode const);
template __global__ void block_kernel(qsgd4_encode const);
template __global__ void block_kernel(ef_qsgd8_encode const);
template __global__ void block_kernel(qsgd8_decode_sum4 const);
template __global__ void block_kernel(scaled_sign_decode_sum4 const);
template __global__ void block_kernel(top_k_digits const);
template __global__ void block_kernel(top_k_collect const);
template __global__ void block_kernel(top_k_place const);
template __global__ void block_kernel(top_k_emit const);
template __global__ void block_kernel(top_k_decode_sum4 const);
template __global__ void block_kernel(bfloat16_cast const);

}}}  // namespace pith::PITH_ABI::detail
