// pith/pith.hpp — the core, the executor seq, common codecs and error feedback. Include other headers by name.
#pragma once

#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/damped.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/codec/chain.hpp>
#include <pith/codec/compress.hpp>
#include <pith/codec/compressor.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>
#include <pith/transform/hadamard.hpp>
#include <pith/version.hpp>
