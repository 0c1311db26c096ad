// pith/exchange.hpp — gradient exchanges, and the communicators that need no external library.
#pragma once

#include <pith/adaptor/flat.hpp>
#include <pith/collective/g_top_k.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/ok_top_k.hpp>
#include <pith/collective/reduce_scatter.hpp>
#include <pith/collective/ring.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/shaped.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/all_gather.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/mean_norm.hpp>
#include <pith/exchange/mixed_exchange.hpp>
#include <pith/exchange/reduce_scatter_mean.hpp>
#include <pith/exchange/report_lines.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/exchange/sharded_exchange.hpp>
