// pith/adaptor/detail/adaptor.hpp — the base class of codecs that wrap another codec and forward its functions.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/detail/feedback_places.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/measured.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/codec/stage.hpp>

#include <concepts>
#include <cstdint>
#include <tuple>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The base class of a terminal codec Self that wraps a codec C. The base class forwards the functions for C's rates,
/// measurements and feedback. Self defines with(codec), which returns a Self that wraps `codec`. In the states of Self,
/// the states of C come first.
template <class Self, class C>
class adaptor : public codec_base {
 public:
  using facets = ext::computed;

  static constexpr codec_traits traits = {
      .reproducible = reproducible<C>, .votes = traits_of<C>.votes, .terminal = true, .rates = traits_of<C>.rates};

  template <class In, executor E>
  auto make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    return states<replicated_part, replicated_of<C, In, E>>{{pith::make_replicated<In>(exec, codec_, id, dims)}};
  }
  template <class In, executor E>
  auto make_local(E const& exec, shape const& dims) const {
    return states<local_part, local_of<C, In, E>>{{pith::make_local<In>(exec, codec_, dims)}};
  }

  sharding const* shards(shape const& dims) const { return codec_.shards(dims); }
  bool changes_mean() const { return codec_.changes_mean(); }
  unsigned depth() const { return codec_.depth(); }
  std::uint64_t granule() const requires requires(C const& c) { c.granule(); }
  { return codec_.granule(); }

  bool has_rate() const { return detail::has_rate(codec_); }
  bool states_follow_rate() const { return codec_.states_follow_rate(); }
  Self at(double rate) const requires rate_adjustable<C> { return self().with(codec_.at(rate)); }

  Self measuring(rate_list const& at_rates) const { return self().with(detail::measuring(codec_, at_rates)); }
  rate_list measured_rates() const { return codec_.measured_rates(); }
  double* energies_in(auto& local) const { return codec_.energies_in(codec_part(local)); }

  void visit_feedback(feedback_scope const& at, auto& replicated, auto& local, auto& places) const {
    codec_.visit_feedback(at, codec_part(replicated), codec_part(local), places);
  }
  template <executor E>
  void rescale(E const& exec, double factor, auto& replicated, auto& local) const {
    codec_.rescale(exec, factor, codec_part(replicated), codec_part(local));
  }

  void require_states(auto const& replicated, auto const& local) const {
    codec_.require_states(codec_part(replicated), codec_part(local));
  }

 protected:
  /// Accepts only C. If C is any_codec, copying the adaptor would otherwise convert the adaptor itself to an any_codec
  /// and wrap it.
  template <std::same_as<C> T>
  explicit adaptor(T codec) : codec_(std::move(codec)) {
    explain_facets<C>();
    require_inner(codec_);
  }

  /// Returns the state of C, which is part of the state of Self.
  static auto& codec_part(auto& states) { return std::get<0>(states.each); }

  C codec_;

 private:
  Self const& self() const { return static_cast<Self const&>(*this); }
};

}}}  // namespace pith::PITH_ABI::detail
