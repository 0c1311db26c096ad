// pith/adaptor/bypass.hpp — uncompressed transfer of small tensors.
#pragma once

#include <pith/adaptor/detail/adaptor.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/codec/capability.hpp>
#include <pith/codec/compact.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/core/error.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// Sends tensors with fewer than `least` elements uncompressed, as `identity` does. Compresses all other tensors with
/// `C`.
///
/// The default of `least` is 1024. For most codecs, the fixed time of one call equals the time to encode a few hundred
/// elements. Compression saves time only on networks below a bandwidth limit. For tensors with fewer than 1024
/// elements, this limit is less than half of the limit for large tensors.
///
///   state       the state of C; empty for small tensors
///   properties  lossless for small tensors, otherwise the properties of C; terminal
template <class C>
class bypass : public detail::adaptor<bypass<C>, C> {
  using base = detail::adaptor<bypass<C>, C>;
  using base::codec_, base::codec_part;

 public:
  static constexpr std::uint64_t usual_least = 1024;

  template <std::same_as<C> T>  // exactly C, without a conversion: see the constructor of adaptor
  explicit bypass(T codec, std::uint64_t least = usual_least) : base(std::move(codec)), least_(least) {}

  std::string name() const { return detail::text("bypass(", codec_.name(), ",", least_, ")"); }
  bool is_lossless(shape const& dims) const { return dense(dims) || codec_.is_lossless(dims); }
  bool may_be_lossy(shape const& dims) const { return !dense(dims) && detail::may_be_lossy(codec_, dims); }
  double delta(shape const& dims) const requires(promises_of<C>.contractive) {
    return dense(dims) ? 1 : codec_.delta(dims);
  }
  double omega(shape const& dims) const requires(promises_of<C>.unbiased) {
    return dense(dims) ? 0 : codec_.omega(dims);
  }
  double error_bound(shape const& dims) const requires(promises_of<C>.absolute) {
    return dense(dims) ? 0 : codec_.error_bound(dims);
  }
  capabilities capabilities_for(shape const& dims) const requires detail::erased<C> {
    return dense(dims) ? capabilities_of(identity(), dims) : codec_.capabilities_for(dims);
  }

  template <class In, executor E>
  auto make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    return base::template make_replicated<In>(exec, id, unless_dense(dims));
  }
  template <class In, executor E>
  auto make_local(E const& exec, shape const& dims) const {
    return base::template make_local<In>(exec, unless_dense(dims));
  }

  template <class In>
  std::size_t payload_bytes(shape const& dims) const {
    return dense(dims) ? value_bytes<In>(dims.n) : pith::payload_bytes<In>(codec_, dims);
  }
  template <class In>
  void visit_pieces(shape const& dims, detail::piece_visitor& visitor) const {
    if (dense(dims)) return visitor.piece({0, payload_bytes<In>(dims)});
    detail::visit_pieces<In>(codec_, dims, visitor);
  }
  template <class In, executor E>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return dense(dims) ? 0 : detail::scratch_bytes<In>(codec_, exec, dims);
  }
  template <class In, executor E>
    requires codec<C, In, E>
  void encode_payload(context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> payload,
                      auto const& replicated, auto& local) const {
    if (dense(cx.dims)) return cx.exec.copy(payload.data(), x.data, payload.size());
    detail::encode_payload<In>(codec_, cx, x, payload, codec_part(replicated), codec_part(local));
  }
  template <class In, executor E>
    requires codec<C, In, E>
  void decode_payload(context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                      auto const& replicated) const {
    if (dense(cx.dims)) return cx.exec.copy(x.data, payload.data(), payload.size());
    detail::decode_payload<In>(codec_, cx, payload, x, codec_part(replicated));
  }

  sharding const* shards(shape const& dims) const { return dense(dims) ? nullptr : codec_.shards(dims); }
  unsigned rounds(shape const& dims, unsigned ranks) const { return dense(dims) ? 1 : codec_.rounds(dims, ranks); }
  template <class In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const {
    return dense(dims) ? detail::transfer_of<In>(identity(), r, dims, ranks)
                       : detail::transfer_of<In>(codec_, r, dims, ranks);
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned ranks) const {
    return dense(dims) ? detail::exchange_scratch_bytes<In>(identity(), exec, dims, ranks)
                       : detail::exchange_scratch_bytes<In>(codec_, exec, dims, ranks);
  }
  template <class In, executor E>
    requires detail::exchangeable<C, In, E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               auto const& replicated, auto& local) const {
    if (dense(cx.dims)) return detail::produce<In>(identity(), cx, round, x, out, detail::nothing, detail::nothing);
    detail::produce<In>(codec_, cx, round, x, out, codec_part(replicated), codec_part(local));
  }
  template <class In, executor E>
    requires detail::exchangeable<C, In, E>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x, auto& replicated,
              auto& local) const {
    if (dense(cx.dims)) return detail::absorb<In>(identity(), cx, round, in, x, detail::nothing, detail::nothing);
    detail::absorb<In>(codec_, cx, round, in, x, codec_part(replicated), codec_part(local));
  }

 private:
  friend base;

  bypass with(C codec) const { return bypass(std::move(codec), least_); }
  bool dense(shape const& dims) const { return dims.n < least_; }
  shape unless_dense(shape const& dims) const { return dense(dims) ? shape{} : dims; }

  std::uint64_t least_;
};

template <class C>
bypass(C, std::uint64_t = 0) -> bypass<C>;

}}  // namespace pith::PITH_ABI
