// pith/adaptor/checked.hpp — a codec that verifies each payload of an all-gather before decoding, without a host wait.
#pragma once

#include <pith/adaptor/detail/adaptor.hpp>
#include <pith/codec/compact.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/core/checksum.hpp>
#include <pith/core/digest.hpp>
#include <pith/core/executor.hpp>
#include <pith/wire/header.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// The faults of a checked payload, one bit per kind of fault. An error_flag is the bitwise or of the faults of all
/// payloads.
namespace fault {

inline constexpr std::uint32_t format = 1;    ///< the payload has another version, or no header
inline constexpr std::uint32_t identity = 2;  ///< the payload is of another codec, tensor, shape, seed or rank
inline constexpr std::uint32_t step = 4;      ///< the payload is of another step
inline constexpr std::uint32_t checksum = 8;  ///< the payload was damaged in transit

}  // namespace fault

namespace detail {

/// The header before a payload, in little-endian byte order.
struct device_header {
  std::uint16_t format;    //  0  'p', version
  std::uint16_t step;      //  2  the low 16 bits of the step
  std::uint32_t identity;  //  4  digest of the fields that must be equal at sender and receiver
  std::uint64_t checksum;  //  8  checksum of the payload
};
static_assert(sizeof(device_header) == 16);

inline constexpr std::uint16_t device_format = 'p' | wire::version << 8;

PITH_HD constexpr device_header make_device_header(std::uint32_t identity, std::uint64_t step, std::uint64_t checksum) {
  return {device_format, static_cast<std::uint16_t>(step), identity, checksum};
}

PITH_HD constexpr std::uint32_t faults_of(device_header const& expected, device_header const& found) {
  return (expected.format == found.format ? 0 : fault::format) |
         (expected.identity == found.identity ? 0 : fault::identity) | (expected.step == found.step ? 0 : fault::step) |
         (expected.checksum == found.checksum ? 0 : fault::checksum);
}

/// Writes the header of a payload. `*checksum` is the payload's checksum.
struct write_device_header {
  std::uint32_t identity;
  std::uint64_t const* step;
  std::uint64_t const* checksum;
  std::byte* to;
  PITH_HD void operator()(std::uint64_t) const {
    auto const header = make_device_header(identity, *step, *checksum);
    __builtin_memcpy(to, &header, sizeof header);
  }
};

/// Sets the fault bits of a payload in `*verdict` and `*flag`. Payloads of several tensors may be checked at the same
/// time in one launch, and they share the flag.
struct check_device_header {
  std::uint32_t identity;
  std::uint64_t const* step;
  std::uint64_t const* checksum;
  std::byte const* from;
  std::uint32_t* verdict;
  std::uint32_t* flag;
  PITH_HD void operator()(std::uint64_t) const {
    device_header found;
    __builtin_memcpy(&found, from, sizeof found);
    auto const wrong = faults_of(make_device_header(identity, *step, *checksum), found);
    *verdict |= wrong;
#if defined(__CUDA_ARCH__)
    atomicOr(flag, wrong);
#else
    *flag |= wrong;
#endif
  }
};

}  // namespace detail

/// A 32-bit word in the executor's memory, in which codecs of type `checked` record faults of payloads. One flag serves
/// all codecs and tensors of an executor.
///
///   requires    the flag must outlive the codecs that use it; only one thread at a time may use the flag
///   complexity  the constructor allocates 4 bytes; no other call allocates
///   errors      require_none() throws wire_error, and does not change the flag. All functions may throw errors of the
///               executor
///   owns        a copy of the executor, and the 4 bytes
template <executor E>
class error_flag {
 public:
  explicit error_flag(E const& exec) : exec_(exec), bits_(exec, 1) {}

  std::uint32_t* data() const { return bits_.data(); }

  /// Returns the bits (namespace fault) of all faults since the construction or the last clear(). Waits for the
  /// executor.
  std::uint32_t faults() const {
    std::uint32_t found = 0;
    exec_.download(&found, bits_.data(), sizeof found);
    exec_.wait();
    return found;
  }
  void clear() { exec_.fill(bits_.data(), std::byte{}, bits_.size_bytes()); }

  /// Throws wire_error if faults() is not 0. Waits for the executor.
  void require_none() const {
    if (auto const found = faults(); found != 0)
      throw wire_error(detail::sentence("error_flag::require_none: ", describe(found)));
  }

 private:
  static std::string describe(std::uint32_t found) {
    auto text = std::string();
    auto const add = [&](std::uint32_t bit, char const* words) {
      if ((found & bit) != 0) text.append(text.empty() ? "payloads had " : "; ").append(words);
    };
    add(fault::format, "another version");
    add(fault::identity, "another codec, tensor, shape, seed or rank");
    add(fault::step, "another step");
    add(fault::checksum, "a wrong checksum");
    return text;
  }

  E exec_;
  buffer<std::uint32_t, E> bits_;
};

namespace detail {

/// Sets the elements of x to NaN if `*verdict`, the fault bits of the received payloads, is not 0. Each call processes
/// one chunk of elements, and reads `*verdict` once.
template <class In>
struct spoil {
  static constexpr std::uint64_t chunk = 1024;

  std::uint32_t const* verdict;
  In* x;
  std::uint64_t n;
  PITH_HD void operator()(std::uint64_t c) const {
    if (*verdict == 0) return;
    for (auto i = c * chunk; i < n && i < (c + 1) * chunk; ++i) x[i] = element_cast<In>(bits_as<float>(0x7fc00000u));
  }
};

/// Visits the pieces of a payload that follows a header of `head` bytes.
class pieces_after_header final : public piece_visitor {
 public:
  pieces_after_header(piece_visitor& to, std::size_t head) : to_(to), head_(head) {}

  std::uint32_t count(std::size_t side, std::size_t offset, std::uint64_t most) override {
    return to_.count(head_ + side, offset, most);
  }
  void piece(payload_piece const& used) override { to_.piece({head_ + used.at, used.used}); }

 private:
  piece_visitor& to_;
  std::size_t head_;
};

}  // namespace detail

/// Adds a 16-byte header to each all-gathered payload of `C`. The header contains the version, a digest of codec,
/// tensor and rank, the step and a checksum. If the header of a payload is wrong, decoding sets the error flag and
/// returns NaN. Buffers that are summed, sent to a single rank, or all-gathered within a subgroup have no header.
///
///     auto flag = pith::error_flag(pith::seq);
///     auto codec = pith::checked(pith::error_feedback(pith::top_k(0.01)), flag);
///     ...
///     flag.require_none();   // throws if a payload had a fault since the last clear()
///
///   requires    a flag in the codec's memory space; the flag must outlive the codec
///   state       the state of C
///   complexity  reads each payload once more than C does, without a host wait; needs scratch for a checksum in
///               addition to the scratch of C
///   on NaN      a damaged payload sets the error flag and makes the gradient NaN, on the rank that received this
///               payload
///   properties  terminal; otherwise the properties of C. To combine a checked codec with bypass, write
///               bypass(checked(c, flag), n)
template <class C, detail::memory_space Space = host_space>
class checked : public detail::adaptor<checked<C, Space>, C> {
  using base = detail::adaptor<checked<C, Space>, C>;
  using base::codec_, base::codec_part;

 public:
  template <executor E>
    requires(std::same_as<Space, space_of<E>>)
  checked(C codec, error_flag<E> const& flag) : checked(std::move(codec), flag.data()) {}

  std::string name() const { return detail::text("checked(", codec_.name(), ")"); }
  bool is_lossless(shape const& dims) const { return codec_.is_lossless(dims); }
  bool may_be_lossy(shape const& dims) const { return detail::may_be_lossy(codec_, dims); }
  double delta(shape const& dims) const requires(promises_of<C>.contractive) { return codec_.delta(dims); }
  double omega(shape const& dims) const requires(promises_of<C>.unbiased) { return codec_.omega(dims); }
  double error_bound(shape const& dims) const requires(promises_of<C>.absolute) { return codec_.error_bound(dims); }
  capabilities capabilities_for(shape const& dims) const requires detail::erased<C> {
    return codec_.capabilities_for(dims);
  }

  template <class In>
  std::size_t payload_bytes(shape const& dims) const {
    return head + pith::payload_bytes<In>(codec_, dims);
  }
  template <class In>
  void visit_pieces(shape const& dims, detail::piece_visitor& visitor) const {
    visitor.piece({0, head});
    auto after = detail::pieces_after_header(visitor, head);
    detail::visit_pieces<In>(codec_, dims, after);
  }
  template <class In, executor E>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return detail::scratch_bytes<In>(codec_, exec, dims) + own_scratch(exec, payload_bytes<In>(dims));
  }

  template <class In, executor E>
    requires codec<C, In, E>
  void encode_payload(context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> payload,
                      auto const& replicated, auto& local) const {
    explain_space<E, Space>();
    detail::encode_payload<In>(codec_, cx, x, payload.subspan(head), codec_part(replicated), codec_part(local));
    sign<In>(cx, payload);
  }
  template <class In, executor E>
    requires codec<C, In, E>
  void decode_payload(context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                      auto const& replicated) const {
    explain_space<E, Space>();
    auto const verdict = fresh_verdict(cx.exec, cx.ws);
    verify<In>(cx, payload, verdict);
    detail::decode_payload<In>(codec_, cx, payload.subspan(head), x, codec_part(replicated));
    spoil(cx.exec, verdict, x);
  }

  unsigned rounds(shape const& dims, unsigned ranks) const { return codec_.rounds(dims, ranks); }
  template <class In>
  transfer round(unsigned r, shape const& dims, unsigned ranks) const {
    auto const moves = detail::transfer_of<In>(codec_, r, dims, ranks);
    if (!has_head(moves)) return moves;
    return {transport::all_gather, element_kind::bytes, head + moves.bytes()};
  }
  template <class In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned ranks) const {
    std::size_t most = 0;
    for (unsigned r = 0; r < rounds(dims, ranks); ++r) most = std::max(most, round<In>(r, dims, ranks).bytes());
    return detail::exchange_scratch_bytes<In>(codec_, exec, dims, ranks) + own_scratch(exec, most);
  }

  template <class In, executor E>
    requires detail::exchangeable<C, In, E>
  void produce(context<In, E> const& cx, unsigned r, values_on<E, In const> x, span_on<E, std::byte> out,
               auto const& replicated, auto& local) const {
    explain_space<E, Space>();
    auto const before = head_in<In>(r, cx.dims, cx.ranks);
    detail::produce<In>(codec_, cx, r, x, out.subspan(before), codec_part(replicated), codec_part(local));
    if (before > 0) sign<In>(cx, out);
  }
  /// A payload with a wrong header makes the gradient NaN. Later rounds then encode NaN.
  template <class In, executor E>
    requires detail::exchangeable<C, In, E>
  void absorb(context<In, E> const& cx, unsigned r, received_on<E> in, values_on<E, In> x, auto& replicated,
              auto& local) const {
    auto const before = head_in<In>(r, cx.dims, cx.ranks);
    auto const inner = received_on<E>{in.bytes.subspan(before), in.stride};
    if (before == 0) return detail::absorb<In>(codec_, cx, r, inner, x, codec_part(replicated), codec_part(local));
    auto const verdict = fresh_verdict(cx.exec, cx.ws);
    verify_all<In>(cx, in, round<In>(r, cx.dims, cx.ranks).bytes(), verdict);
    detail::absorb<In>(codec_, cx, r, inner, x, codec_part(replicated), codec_part(local));
    spoil(cx.exec, verdict, x);
  }

 private:
  static constexpr std::size_t head = sizeof(detail::device_header);

  checked(C codec, std::uint32_t* flag)
      : base(std::move(codec)), flag_(flag), name_digest_((digest() << codec_.name()).value()) {}
  friend base;

  checked with(C codec) const { return checked(std::move(codec), flag_); }

  /// Whether this transfer is an all-gather over all ranks, so that each rank receives every other rank's payload.
  static bool has_head(transfer const& moves) { return moves.how == transport::all_gather && moves.among.is_all(); }
  template <class In>
  std::size_t head_in(unsigned r, shape const& dims, unsigned ranks) const {
    return has_head(detail::transfer_of<In>(codec_, r, dims, ranks)) ? head : 0;
  }

  /// The scratch bytes for a verdict, for a checksum, and for the computation of the checksum.
  template <class E>
  static std::size_t own_scratch(E const& exec, std::size_t bytes) {
    return scratch_for<std::uint32_t>(1) + scratch_for<std::uint64_t>(1) + checksum_scratch_bytes(exec, bytes);
  }

  /// A digest of the fields that must be equal at sender and receiver, except the step, which is in the executor's
  /// memory.
  template <class In>
  std::uint32_t identity(encoding_id const& id, shape const& dims) const {
    auto const all =
        (digest() << name_digest_ << element_name<In>() << dims.n << dims.rows << id.seed << id.tensor << id.rank)
            .value();
    return static_cast<std::uint32_t>(all ^ all >> 32);
  }

  template <class In, class E>
  void sign(context<In, E> const& cx, span_on<E, std::byte> payload) const {
    auto const scope = cx.ws.mark();
    auto* const sum = cx.ws.template take<std::uint64_t>(1).data;
    checksum_into(cx.exec, sum, span_on<E, std::byte const>(payload.subspan(head)), cx.ws);
    cx.exec.for_each_index(1,
                           detail::write_device_header{identity<In>(cx.id, cx.dims), cx.id.step, sum, payload.data()});
  }

  template <class E>
  static std::uint32_t* fresh_verdict(E const& exec, workspace_on<E>& ws) {
    auto* const verdict = ws.template take<std::uint32_t>(1).data;
    exec.fill(verdict, std::byte{}, sizeof *verdict);
    return verdict;
  }
  template <class In, class E>
  void verify(context<In, E> const& cx, span_on<E, std::byte const> payload, std::uint32_t* verdict) const {
    auto const scope = cx.ws.mark();
    auto* const sum = cx.ws.template take<std::uint64_t>(1).data;
    checksum_into(cx.exec, sum, payload.subspan(head), cx.ws);
    cx.exec.for_each_index(
        1, detail::check_device_header{identity<In>(cx.id, cx.dims), cx.id.step, sum, payload.data(), verdict, flag_});
  }
  template <class In, class E>
  void verify_all(context<In, E> const& cx, received_on<E> in, std::size_t size, std::uint32_t* verdict) const {
    for (unsigned rank = 0; rank < cx.ranks; ++rank) {
      verify<In>(cx.from_rank(rank), in.from(rank, size), verdict);
    }
  }
  template <class E, class In>
  static void spoil(E const& exec, std::uint32_t const* verdict, values_on<E, In> x) {
    using chunks = detail::spoil<In>;
    auto const n = x.capacity;
    exec.for_each_index(n / chunks::chunk + (n % chunks::chunk != 0), chunks{verdict, x.data, n});
  }

  std::uint32_t* flag_;
  std::uint64_t name_digest_;
};

template <class C, executor E>
checked(C, error_flag<E> const&) -> checked<C, space_of<E>>;

}}  // namespace pith::PITH_ABI
