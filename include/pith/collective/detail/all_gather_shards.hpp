// pith/collective/detail/all_gather_shards.hpp — a compressed all-gather: each rank sends its shard to all ranks.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/collective/detail/shard_exchange.hpp>
#include <pith/collective/sharding.hpp>
#include <pith/collective/tensor_parts.hpp>

#include <concepts>
#include <cstddef>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Divides a tensor into shards, one per rank. Each rank encodes its shard and sends the payload to all ranks. All ranks
/// then decode all shards. So the tensor becomes bitwise equal on all ranks, and the rank's own shard is rounded too.
/// This is the exchange of the weights in ZeRO and FSDP. An exchange calls its result a mean, which here it is not.
///
///   requires    a C without state and without rounds of its own (std::invalid_argument). Each shard is encoded as a
///               separate vector. All payloads of a transfer are as large as the largest payload of a shard
///   state       none
///   complexity  one transfer; encodes n / N elements and decodes n
///   properties  outside an exchange, all_gather_shards behaves as the codec C
///   reference   Rajbhandari, Rasley, Ruwase and He, ZeRO, SC 2020; quantized as in Wang et al., ZeRO++, 2023
template <class C>
class all_gather_shards : public shard_exchange<C> {
  using base = shard_exchange<C>;
  using base::codec_part, base::over, base::wrapped;

 public:
  template <std::same_as<C> T>  // exactly C, without a conversion: see the constructor of adaptor
  explicit all_gather_shards(T codec, sharding rule = sharding::equal())
      : base("all_gather_shards", std::move(codec), std::move(rule)) {}

  template <class In>
  transfer round(unsigned, shape const& dims, unsigned ranks) const {
    return {transport::all_gather, element_kind::bytes, part_bytes<In>(wrapped(), over(dims, ranks))};
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned ranks) const {
    return over(dims, ranks).most([&](shape const& shard) { return scratch_bytes<In>(wrapped(), exec, shard); });
  }

  template <real In, executor E>
    requires codec<C, In, E>
  void produce(context<In, E> const& cx, unsigned, values_on<E, In const> x, span_on<E, std::byte> out,
               auto const& replicated, auto& local) const {
    auto const all = over(cx.dims, cx.ranks);
    auto const own = values_on<E, In const>{x.data + all.first(cx.id.rank), all.dims(cx.id.rank).n};
    encode_mean_part<In>(wrapped(), cx, all, own, out, codec_part(replicated), codec_part(local));
  }
  template <real In, executor E>
    requires codec<C, In, E>
  void absorb(context<In, E> const& cx, unsigned, received_on<E> in, values_on<E, In> x, auto& replicated,
              auto&) const {
    decode_parts(wrapped(), cx, over(cx.dims, cx.ranks), in, x, codec_part(replicated));
  }
};

template <class C>
all_gather_shards(C, sharding = sharding::equal()) -> all_gather_shards<C>;

}}}  // namespace pith::PITH_ABI::detail
