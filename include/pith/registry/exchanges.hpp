// pith/registry/exchanges.hpp — the texts of codecs that wrap a chain or have their own exchange.
#pragma once

#include <pith/registry/method.hpp>

#include <array>

namespace pith::inline v0 {

/// The descriptions of codecs that are no stages. `parse` constructs these codecs.
inline constexpr auto exchange_listings = std::array{
    listing{"ef(c)",
            "error feedback: adds the residual to the next gradient",
            {"ef(scaled_sign)", "ef(top_k(0.2)|qsgd<8>)", "ef(qsgd<4>,residual(0.9,1))", "ef(sign,unverified)"}},
    listing{"rated(c)",
            "a codec with an adjustable rate; rated(c, dense_from): dense from that rate on",
            {"rated(top_k(0.2))", "ef(rated(top_k(0.2)|qsgd<8>,0.5))", "rated(random_k(0.2),dense)"}},
    listing{"bypass(c,n)",
            "tensors of fewer than 1,024 elements uncompressed; bypass(c, n): of fewer than n",
            {"bypass(top_k(0.01),1024)", "bypass(ef(scaled_sign),64)"}},
    listing{"two_shot(c)",
            "each rank adds up a part of the tensor; two_shot(a, b): b for the mean",
            {"two_shot(qsgd<8>)", "two_shot(scaled_sign,ef(scaled_sign))"}},
    listing{"ring(c)", "segments are added up along a ring", {"ring(qsgd<8>)"}},
    listing{"hierarchical(c,d,ranks)",
            "c within a node of some ranks, d between nodes",
            {"hierarchical(qsgd<8>,ef(top_k(0.2)),2)"}},
    listing{"ok_top_k(density)", "the largest 1 % of the sums of each rank's largest 1 %", {"ok_top_k(0.01)"}},
    listing{"g_top_k(density)", "pairs of ranks merge their largest 1 %, until all have the same", {"g_top_k(0.01)"}}};

}  // namespace pith::inline v0
