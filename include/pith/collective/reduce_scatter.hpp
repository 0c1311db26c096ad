// pith/collective/reduce_scatter.hpp — a compressed reduce-scatter: each rank receives the mean of its shard.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/collective/detail/shard_exchange.hpp>
#include <pith/collective/sharding.hpp>
#include <pith/collective/tensor_parts.hpp>

#include <concepts>
#include <cstddef>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// Divides a tensor into shards, one per rank. Each rank encodes its gradient shard by shard, and sends shard r to rank
/// r. Rank r decodes shard r of all gradients, and writes their mean to its shard of the gradient. The elements of
/// other shards then have unspecified values. A rank sends (N - 1) / N times the payload of the tensor.
///
///   requires    a C without state and without rounds of its own (std::invalid_argument), so no power_sgd and no
///               two_shot; a communicator with all_to_all. Each shard is encoded as a separate vector. So a sparsifier
///               computes k from the size of the shard. All pieces of a transfer are as large as the largest payload of
///               a shard
///   state       none. In error_feedback(reduce_scatter(c)), the residual has n elements on each rank, and is the rank's
///               own compression error of all shards
///   complexity  one transfer; encodes n elements, and decodes N payloads of n / N elements
///   range       in error_feedback, the owner of a shard of half or bfloat16 elements keeps the rounding error of the mean
///               N times. So a gradient must be below the largest value of its type divided by 1 + N / 256 for bfloat16,
///               or by 1 + N / 2048 for half. A larger gradient may give an infinite mean in single steps
///   properties  outside an exchange, reduce_scatter behaves as the codec C
///   reference   Rajbhandari, Rasley, Ruwase and He, ZeRO, SC 2020; quantized as in Wang et al., ZeRO++, 2023
template <class C>
class reduce_scatter : public detail::shard_exchange<C> {
  using base = detail::shard_exchange<C>;
  using base::codec_part, base::over, base::wrapped;

 public:
  static constexpr codec_traits traits = {
      .reproducible = reproducible<C>, .votes = traits_of<C>.votes, .scatters = true};

  template <std::same_as<C> T>  // exactly C, without a conversion: see the constructor of adaptor
  explicit reduce_scatter(T codec, sharding rule = sharding::equal())
      : base("reduce_scatter", std::move(codec), std::move(rule)) {}

  sharding const* shards(shape const&) const { return &base::rule(); }

  /// True if C can encode every shard from a source. For a chain that begins with a transform, this depends on the sizes
  /// of the shards, so the result is false.
  template <executor E>
  bool can_encode_from(shape const& dims) const {
    constexpr auto is_regular = detail::encodes_every_shape<C, E> || detail::erased<C>;
    return is_regular && wrapped().template can_encode_from<E>(dims);
  }
  template <class In, executor E, class Source>
  std::size_t scratch_bytes_from(E const& exec, shape const& dims) const {
    return detail::scratch_bytes_from<In, Source>(wrapped(), exec, dims);
  }
  template <class In, executor E, class Source>
    requires detail::reads_source<C, In, E, Source>
  void encode_from(context<In, E> const& cx, Source const& from, span_on<E, std::byte> payload, auto const& replicated,
                   auto& local) const {
    detail::encode_from<In>(wrapped(), cx, from, payload, codec_part(replicated), codec_part(local));
  }

  template <class In>
  transfer round(unsigned, shape const& dims, unsigned ranks) const {
    return {transport::all_to_all, element_kind::bytes, detail::part_bytes<In>(wrapped(), over(dims, ranks))};
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned ranks) const {
    return detail::part_mean_scratch_bytes<In>(wrapped(), exec, over(dims, ranks), ranks);
  }

  template <real In, executor E>
    requires codec<C, In, E>
  void produce(context<In, E> const& cx, unsigned, values_on<E, In const> x, span_on<E, std::byte> out,
               auto const& replicated, auto& local) const {
    detail::encode_parts<In>(wrapped(), cx, over(cx.dims, cx.ranks), x, out, codec_part(replicated), codec_part(local));
  }
  /// As `produce`, for the tensor of a source. The encoder of a shard passes the decoded values to the source.
  template <class In, executor E, class Source>
    requires detail::reads_source<C, In, E, Source>
  void produce_from(context<In, E> const& cx, unsigned, Source const& from, span_on<E, std::byte> out,
                    auto const& replicated, auto& local) const {
    detail::encode_parts_from<In>(wrapped(), cx, over(cx.dims, cx.ranks), from, out, codec_part(replicated),
                                  codec_part(local));
  }
  template <real In, executor E>
    requires codec<C, In, E>
  void absorb(context<In, E> const& cx, unsigned, received_on<E> in, values_on<E, In> x, auto& replicated,
              auto&) const {
    auto const all = over(cx.dims, cx.ranks);
    auto const own = values_on<E, In>{x.data + all.first(cx.id.rank), all.dims(cx.id.rank).n};
    detail::decode_part_mean(wrapped(), cx, all, in, own, codec_part(replicated));
  }
  template <real In, executor E>
    requires codec<C, In, E>
  void contribution(context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
                    auto const& replicated) const {
    detail::decode_own_parts(wrapped(), cx, over(cx.dims, cx.ranks), produced, sent, codec_part(replicated));
  }
};

template <class C>
reduce_scatter(C, sharding = sharding::equal()) -> reduce_scatter<C>;

}}  // namespace pith::PITH_ABI
