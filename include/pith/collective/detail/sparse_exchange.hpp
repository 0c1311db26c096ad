// pith/collective/detail/sparse_exchange.hpp — the common base of collectives that exchange top-k entries.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/collective/detail/pairs.hpp>
#include <pith/core/error.hpp>
#include <pith/sparsify/detail/density.hpp>
#include <pith/sparsify/select.hpp>
#include <pith/sparsify/top_k.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The base class of a collective that exchanges top-k entries. The derived class defines the rounds, and may add
/// states, which only these rounds use. Outside an exchange, the collective behaves like the codec `top_k`, which has
/// no state.
class sparse_exchange : public codec_base {
 public:
  using engine_facets = ext::facets<ext::early_share>;

  static constexpr codec_traits traits = {.reproducible = true};

  std::string name() const { return text(word_, "(", density_.text(), ")"); }
  std::uint64_t kept(std::uint64_t n) const { return density_.of(n); }
  double delta(shape const& dims) const { return codec_.delta(dims); }

  template <real In>
  std::size_t payload_bytes(shape const& dims) const {
    return pith::payload_bytes<In>(codec_, dims);
  }
  template <real In, executor E>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return codec_.template scratch_bytes<In>(exec, dims);
  }
  template <real In, executor E>
  void encode_payload(context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> payload, auto const&,
                      auto&) const {
    auto none = no_state();
    detail::encode_payload<In>(codec_, cx, x, payload, none, none);
  }
  template <real In, executor E>
  void decode_payload(context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                      auto const&) const {
    detail::decode_payload<In>(codec_, cx, payload, x, no_state());
  }

  /// The last round that reads the gradient.
  unsigned contributing_round(unsigned) const { return 0; }

 protected:
  sparse_exchange(char const* word, double density) : word_(word), density_(word, density), codec_(density) {}

  /// The workspace bytes of take_pairs<T>(n).
  template <class T>
  static std::size_t pairs_scratch_bytes(std::uint64_t n) {
    return scratch_for<T>(n) + scratch_for<std::uint32_t>(n);
  }
  template <class T, memory_space Space>
  static pairs<T> take_pairs(std::uint64_t n, workspace<Space>& ws) {
    auto* const values = ws.template take<T>(n).data;
    return {values, ws.template take<std::uint32_t>(n).data};
  }
  /// The workspace bytes for the selection of k from n values.
  template <class T>
  static std::size_t selection_scratch_bytes(std::uint64_t n, std::uint64_t k) {
    return ext::select_scratch_bytes<ext::plain_source<T>>(n, k);
  }

 private:
  char const* word_;
  density density_;
  top_k<packed_indices> codec_;
};

}}}  // namespace pith::PITH_ABI::detail
