// pith/transform/tile_transform.hpp — the engine of tile transforms, which can fuse with the next stage.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/source.hpp>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// An orthogonal transform of tiles in block-local memory. A tile is a run of consecutive elements. In each step, all
/// ranks must use the same transform. All functions are PITH_HD:
///
///     tile                                        the number of elements in a tile, a power of two, at most 512
///     forward(team, draws, first, count, A* p)    transforms `count` elements (whole tiles) from element `first` on;
///                                                 count is an integer or an ext::constant
///     inverse(team, draws, first, count, A* p)    applies the inverse, which is the transpose. A decoder passes
///                                                 versioned_draws, so an inverse that draws takes a template parameter
template <class R>
concept tile_rule = requires(R const& r, draws const& random, serial_team const& team, std::uint64_t first, float* p) {
  { r.tile } -> std::convertible_to<std::uint32_t>;
  r.forward(team, random, first, 1u, p);
  r.inverse(team, random, first, 1u, p);
};

namespace detail {

/// A source that transforms the `n` values of another source. The last tile is padded with zeros.
template <class Rule, class Source, class A>
struct transformed_source {
  static constexpr bool stores_residual = Source::stores_residual;
  static constexpr bool is_tiled = true;

  Rule rule;
  Source from;
  draws random;
  std::uint64_t n;

  PITH_HD std::uint32_t real_count(std::uint64_t first, std::uint32_t count) const {
    return first >= n ? 0 : n - first < count ? static_cast<std::uint32_t>(n - first) : count;
  }
  template <class Team, class Count>
  PITH_HD A const* load(Team const& team, std::uint64_t first, Count count, A* room) const {
    auto const there = real_count(first, count);
    auto const* const x = from.load(team, first, there, room);
    team.for_each(count, [=](std::uint32_t i) { room[i] = i < there ? x[i] : A{0}; });
    rule.forward(team, random, first, count, room);
    return room;
  }
  template <class Team, class Count>
  PITH_HD void store_residual(Team const& team, std::uint64_t first, Count count, A* sent) const {
    rule.inverse(team, random, first, count, sent);
    from.store_residual(team, first, real_count(first, count), sent);
  }
};

/// A sink that multiplies values by a factor, applies the inverse transform, and writes the result to another sink.
template <class Rule, class Sink, class A>
struct inverse_sink {
  static constexpr bool takes_blocks = true;

  Rule rule;
  Sink to;
  versioned_draws random;
  std::uint64_t n;
  A factor;

  PITH_HD static A rounded(A value) { return value; }

  template <class Team, class Count>
  PITH_HD void store(Team const& team, std::uint64_t first, Count count, A* p) const {
    auto const share = factor;
    if (share != 1) team.for_each(count, [=](std::uint32_t i) { p[i] = share * p[i]; });
    rule.inverse(team, random, first, count, p);
    auto const there = first >= n ? 0 : n - first < count ? static_cast<std::uint32_t>(n - first) : count;
    auto const sink = to;
    team.for_each(there, [=](std::uint32_t i) { sink.put(first + i, p[i]); });
  }
};

/// `transform_block` applies the transform to one block of whole tiles, and `restore_block` applies the inverse.
template <class Source, class In, std::uint32_t Span>
struct transform_block {
  using A = accum<In>;
  using memory = fast_array<A, Span>;
  Source from;
  In* y;
  std::uint64_t n;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const first = block * Span;
    if constexpr (Team::specializes) {
      if (n - first >= Span) return transform(team, fast, first, constant<Span>());
    }
    transform(team, fast, first, block_size(n, first, Span));
  }

 private:
  template <class Team, class Count>
  PITH_HD void transform(Team const& team, memory& fast, std::uint64_t first, Count count) const {
    auto const* const p = from.load(team, first, count, fast.data());
    auto* const to = y + first;
    team.for_each(count, [=](std::uint32_t i) { to[i] = saturated_cast<In>(p[i]); });
  }
};
template <class Sink, class In, std::uint32_t Span>
struct restore_block {
  using A = accum<In>;
  using memory = fast_array<A, Span>;
  Sink to;
  In const* y;
  std::uint64_t n;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const first = block * Span;
    if constexpr (Team::specializes) {
      if (n - first >= Span) return restore(team, fast, first, constant<Span>());
    }
    restore(team, fast, first, block_size(n, first, Span));
  }

 private:
  template <class Team, class Count>
  PITH_HD void restore(Team const& team, memory& fast, std::uint64_t first, Count count) const {
    auto const* const from = y + first;
    auto* const p = fast.data();
    team.for_each(count, [=](std::uint32_t i) { p[i] = element_cast<A>(from[i]); });
    to.store(team, first, count, p);
  }
};

}  // namespace detail

/// A stage built from a tile transform. If the next stage of a chain is a quantizer, the quantizer reads the
/// transformed tiles from block-local memory.
///
///   emits       n values of In, padded with zeros to whole tiles; no side information
///   complexity  one read of x and one write of the output. If the next stage is a quantizer, the transform takes no
///               additional reads and writes. No scratch memory
///   properties  up to rounding: a rotation with omega = 0 and delta = 1, summable. The transform is not an isometry if
///               the tile size does not divide n
template <tile_rule Rule>
class tile_transform : public codec_base {
 public:
  using engine_facets = ext::facets<ext::unbiased, ext::contractive, detail::emits_tiles>;

  template <class In>
  using output = In;

  static constexpr codec_traits traits = {
      .projection = true, .rotation = true, .reproducible = reproducible<Rule>, .sums = sum_form::encode};

  explicit constexpr tile_transform(Rule rule) : rule_(rule) {}

  constexpr Rule const& rule() const { return rule_; }
  constexpr std::uint32_t tile() const { return rule_.tile; }
  constexpr double omega(shape const&) const { return 0; }
  constexpr double delta(shape const&) const { return 1; }

  constexpr shape output_shape(shape const& dims) const { return {(dims.n + tile() - 1) / tile() * tile()}; }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y) const {
    using source = decltype(transformed<In>(cx.id, cx.dims, ext::plain_source<In>()));
    auto const n = output_shape(cx.dims).n;
    cx.exec.for_each_block(detail::blocks_for(n, E::items_per_block),
                           detail::transform_block<source, In, E::items_per_block>{
                               transformed<In>(cx.id, cx.dims, ext::plain_source<In>{x.data}), y.values.data, n});
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, In const> y, values_on<E, In> x) const {
    using sink = decltype(restored<In>(cx.id, cx.dims, ext::tensor_sink<In>()));
    auto const n = output_shape(cx.dims).n;
    cx.exec.for_each_block(detail::blocks_for(n, E::items_per_block),
                           detail::restore_block<sink, In, E::items_per_block>{
                               restored<In>(cx.id, cx.dims, ext::tensor_sink<In>{x.data, 1}), y.values.data, n});
  }

  /// The source from which a quantizer after this stage reads values, and the sink to which the quantizer writes
  /// decoded values.
  template <real In, class Source>
  auto transformed(encoding_id const& id, shape const& dims, Source const& from) const {
    return detail::transformed_source<Rule, Source, accum<In>>{rule_, from, draws(shared(id)), dims.n};
  }
  template <real In, class Sink>
  auto restored(encoding_id const& id, shape const& dims, Sink const& to, accum<In> factor = 1) const {
    return detail::inverse_sink<Rule, Sink, accum<In>>{rule_, to, versioned_draws(shared(id)), dims.n, factor};
  }

 private:
  Rule rule_;
};

}}  // namespace pith::PITH_ABI
