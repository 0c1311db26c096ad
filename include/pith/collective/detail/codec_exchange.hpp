// pith/collective/detail/codec_exchange.hpp — the common base of collectives that wrap a codec.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/codec/state.hpp>
#include <pith/collective/tensor_parts.hpp>
#include <pith/core/transfer.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The base class of a collective that wraps a codec C. The derived class defines the rounds, and may add states, which
/// only these rounds use. Outside an exchange, the collective behaves like C, whose state must be empty.
template <class C>
class codec_exchange : public codec_base {
 public:
  using facets = ext::computed;

  static constexpr codec_traits traits = {.reproducible = reproducible<C>, .votes = traits_of<C>.votes};

  double omega(shape const& dims) const requires(promises_of<C>.unbiased) { return codec_.omega(dims); }
  double delta(shape const& dims) const requires(promises_of<C>.contractive) { return codec_.delta(dims); }
  double error_bound(shape const& dims) const requires(promises_of<C>.absolute) { return codec_.error_bound(dims); }
  capabilities capabilities_for(shape const& dims) const requires erased<C> { return exchanged(codec_, dims); }

  template <class In>
  std::size_t payload_bytes(shape const& dims) const {
    return pith::payload_bytes<In>(codec_, dims);
  }
  template <class In, executor E>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return detail::scratch_bytes<In>(codec_, exec, dims);
  }
  template <real In, executor E>
    requires codec<C, In, E>
  void encode_payload(context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> payload,
                      auto const& replicated, auto& local) const {
    detail::encode_payload<In>(codec_, cx, x, payload, codec_part(replicated), codec_part(local));
  }
  template <real In, executor E>
    requires codec<C, In, E>
  void decode_payload(context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                      auto const& replicated) const {
    detail::decode_payload<In>(codec_, cx, payload, x, codec_part(replicated));
  }

 protected:
  /// The capabilities that a collective has in common with a codec that it wraps.
  template <class D>
  static capabilities exchanged(D const& codec, shape const& dims) {
    auto const of = capabilities_of(codec, dims);
    return {{.reproducible = of.reproducible, .votes = of.votes}, of.omega, of.delta, of.error_bound};
  }
  /// Throws std::invalid_argument if C compresses only matrices, because the parts of a tensor are vectors.
  codec_exchange(char const* word, C codec) : codec_(std::move(codec)), word_(word) {
    explain_facets<C>();
    constexpr auto side = std::uint64_t{1} << 10;
    require(codec_.is_lossless(matrix(side, side)) || !codec_.is_lossless(vector(side * side)), word_,
            ": codec must compress vectors, got ", codec_.name(), ", which compresses only matrices");
  }

  C const& wrapped() const { return codec_; }
  char const* word() const { return word_; }

  /// Makes a tuple of the empty state of C and of `others`. Throws std::invalid_argument if the state of C is not
  /// empty.
  template <class In, class E, class... Others>
  auto replicated_with(E const& exec, encoding_id const& id, shape const& dims, Others... others) const {
    if constexpr (collective<C, In, E>) require_no_rounds<In>(codec_, dims);
    return stateless(states<replicated_part, replicated_of<C, In, E>, Others...>{
        {pith::make_replicated<In>(exec, codec_, id, dims), std::move(others)...}});
  }
  template <class In, class E, class... Others>
  auto local_with(E const& exec, shape const& dims, Others... others) const {
    return stateless(states<local_part, local_of<C, In, E>, Others...>{
        {pith::make_local<In>(exec, codec_, dims), std::move(others)...}});
  }
  static auto& codec_part(auto& states) { return std::get<0>(states.each); }

  /// Throws std::invalid_argument if a wrapped codec has rounds of its own, which this collective does not run.
  template <class In, class D>
  void require_no_rounds(D const& codec, shape const& dims) const {
    if constexpr (!traits_of<D>.sums_in_chains) {
      constexpr unsigned some_ranks = 2;
      auto const how = transfer_of<In>(codec, 0, dims, some_ranks).how;
      require(codec.rounds(dims, some_ranks) == 1 && how != transport::pairwise && how != transport::all_to_all, word_,
              ": codec must have no rounds of its own, got ", codec.name());
    }
  }

 private:
  template <class States>
  States stateless(States made) const {
    require_no_state(word_, codec_, codec_part(made));
    return made;
  }

  C codec_;
  char const* word_;
};

}}}  // namespace pith::PITH_ABI::detail
