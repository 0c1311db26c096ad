// pith/adaptor/damped.hpp — an unbiased stage scaled by 1 / (1 + omega), which makes it contractive.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/error.hpp>

#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// Encodes like `S`. Decodes like `S`, then multiplies the result by 1 / (1 + omega).
///
///   emits       as S
///   requires    an unbiased S. Values that S decodes must be finite in In, also where the products with 1 / (1 + omega)
///               are far below its largest value. Otherwise the result saturates, or is infinite for float and double
///   state       that of S
///   properties  contractive with delta = 1 / (1 + omega)
///   reference   Beznosikov, Horvath, Richtarik and Safaryan, On Biased Compression, JMLR 2023
template <class S>
class damped : public codec_base {
  static_assert(
      promises_of<S>.unbiased,
      "pith: damped(s) needs an unbiased stage s (one with omega(shape)); a contractive one needs no damping");

 public:
  using facets = ext::computed;

  template <class In>
  using output = output_of<S, In>;

  static constexpr codec_traits traits = {
      .reproducible = reproducible<S>, .sums = traits_of<S>.sums, .rates = traits_of<S>.rates};

  explicit constexpr damped(S stage) : stage_(std::move(stage)) { explain_facets<S>(); }

  std::string name() const { return detail::text("damped(", stage_.name(), ")"); }
  double delta(shape const& dims) const { return factor(dims); }
  damped at(double rate) const requires detail::rate_adjustable<S> { return damped(stage_.at(rate)); }

  constexpr shape output_shape(shape const& dims) const { return stage_.output_shape(dims); }
  template <class In>
  constexpr std::size_t side_bytes(shape const& dims) const {
    return stage_.template side_bytes<In>(dims);
  }
  template <class In, executor E>
  constexpr std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return detail::scratch_bytes<In>(stage_, exec, dims);
  }

  template <class In>
    requires(traits_of<S>.is_variable())
  constexpr std::size_t count_offset(shape const& dims) const { return stage_.template count_offset<In>(dims); }

  template <class In, executor E>
    requires(!detail::stateless<replicated_of<S, In, E>>)
  auto make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    return stage_.template make_replicated<In>(exec, id, dims);
  }
  template <class In, executor E>
    requires(!detail::stateless<local_of<S, In, E>>)
  auto make_local(E const& exec, shape const& dims) const { return stage_.template make_local<In>(exec, dims); }

  template <class In, executor E>
    requires stage<S, In, E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, output<In>> y, auto const& replicated,
              auto& local) const {
    detail::encode<In>(stage_, cx, x, y, replicated, local);
  }
  template <class In, executor E>
    requires stage<S, In, E>
  void decode(context<In, E> const& cx, encoded_on<E, output<In> const> y, values_on<E, In> x,
              auto const& replicated) const {
    detail::decode<In>(stage_, cx, y, x, replicated);
    auto const by = static_cast<accum<In>>(factor(cx.dims));
    cx.exec.for_each_index(x.capacity, detail::scale<In, In>{x.data, x.data, by});
  }

 private:
  double factor(shape const& dims) const { return 1 / (1 + stage_.omega(dims)); }

  S stage_;
};

}}  // namespace pith::PITH_ABI
