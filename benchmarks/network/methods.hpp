// benchmarks/network/methods.hpp — the compared methods: each kind of codec in each exchange that supports it.
#pragma once

#include <pith/exchange/codec_policy.hpp>
#include <pith/parse.hpp>

#include <string>

namespace network {

/// Methods of one family differ only in their exchange.
struct method {
  char const *family, *exchange, *codec;
};

inline constexpr method methods[] = {
    {"float", "sum", "identity"},
    {"bfloat16", "sum", "cast<bfloat16>"},
    {"qsgd<8>", "all-gather", "qsgd<8>"},
    {"qsgd<8>", "two_shot", "two_shot(qsgd<8>)"},
    {"qsgd<8>", "ring", "ring(qsgd<8>)"},
    {"qsgd<8>", "hierarchical", "hierarchical(qsgd<8>,qsgd<8>,2)"},
    {"qsgd<4>", "all-gather", "qsgd<4>"},
    {"qsgd<4>", "two_shot", "two_shot(qsgd<4>)"},
    {"scaled_sign", "all-gather", "ef(scaled_sign)"},
    {"scaled_sign", "two_shot", "ef(two_shot(scaled_sign,ef(scaled_sign)))"},
    {"top_k", "all-gather", "ef(top_k(0.01))"},
    {"top_k", "two_shot", "ef(two_shot(top_k(0.01),ef(top_k(0.01))))"},
    {"top_k", "ok_top_k", "ef(ok_top_k(0.01))"},
    {"top_k", "g_top_k", "ef(g_top_k(0.01))"},
    {"top_k", "hierarchical", "hierarchical(identity,ef(top_k(0.01)),2)"},
    {"top_k|qsgd<8>", "all-gather", "ef(top_k(0.01)|qsgd<8>)"},
    {"top_k|qsgd<8>", "two_shot", "ef(two_shot(top_k(0.01)|qsgd<8>,ef(top_k(0.01)|qsgd<8>)))"},
    {"random_k", "sum", "ef(random_k(0.01))"},
    {"power_sgd", "sum", "ef(power_sgd(4))"}};

/// Whether a method is dense float or bfloat16.
inline bool is_dense(std::string const& family) { return family == "float" || family == "bfloat16"; }

inline auto policy_of(std::string const& codec) { return pith::matrices(pith::parse<float>(codec)); }

}  // namespace network
