// pith/codec/facets.hpp — the facets of a codec: what it can do besides encoding and decoding.
#pragma once

#include <pith/config.hpp>
#include <pith/core/facets.hpp>

namespace pith { inline namespace PITH_ABI {

namespace ext {

struct unbiased {};       ///< omega: E D(C(x)) = x, and E|D(C(x)) - x|^2 <= omega |x|^2
struct contractive {};    ///< delta: E|D(C(x)) - x|^2 <= (1 - delta) |x|^2
struct bounded {};        ///< error_bound: |D(C(x)) - x| <= error_bound for each element
struct rate {};           ///< at: the codec at another rate, which controllers choose
struct source {};         ///< encode_from: error feedback adds the residual in the pass that encodes
struct source_scratch {};  ///< scratch_bytes_from: encode_from takes another number of workspace bytes than encode
struct measured {};  ///< encode_measured, measured_scratch_bytes: kept energies are measured in the pass that encodes
struct ranks {};          ///< decode_ranks: one pass decodes and adds the payloads of all ranks
struct entries {};        ///< max_entries, decode_entries: a sum of sparse payloads reads only their entries
struct used {};           ///< used_values, used_side_bytes: `compact` removes the unused bytes of a payload
struct parts {};          ///< granule: a tensor's parts, one per rank, begin at multiples of this number of elements
struct share {};          ///< contribution: a collective computes a rank's own share from the buffer that it produced
struct costly_share {};   ///< own_contribution: as contribution, at additional cost
struct early_share {};    ///< contributing_round: the last round that reads the gradient, if it is not the last round
struct delivered {};      ///< delivered: a collective computes a rank's own share after the last round
struct rounds {};         ///< round, exchange_scratch_bytes, produce, absorb: the rounds of a collective codec
struct source_rounds {};  ///< produce_from, absorb_to: the rounds read the old residual and write the next one

}  // namespace ext

namespace detail {

/// Engines declare the following facets; users' classes inherit them.
struct emits_tiles {};  ///< tile_transform: tile, transformed, restored
struct reads_tiles {};  ///< scalar_quantizer: holds_tiles, decode_to, decode_ranks_to
struct selects {};      ///< sparsifier: make_selected, select_from, write_back

}  // namespace detail
}}  // namespace pith::PITH_ABI
