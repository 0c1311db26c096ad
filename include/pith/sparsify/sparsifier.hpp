// pith/sparsify/sparsifier.hpp — the engine of sparsifiers that keep a fixed number of entries.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/codec/stage.hpp>
#include <pith/config.hpp>
#include <pith/core/source.hpp>
#include <pith/sparsify/detail/density.hpp>
#include <pith/sparsify/packed_indices.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

namespace detail {

template <class In>
struct scatter_at {
  In const* values;
  std::uint32_t const* indices;
  In* x;
  PITH_HD void operator()(std::uint64_t i) const { x[indices[i]] = values[i]; }
};

}  // namespace detail

/// A base class of sparsifiers. The derived class `Self` keeps kept(n) entries of a tensor. The other elements become
/// zero. `Self` defines these functions:
///
///     uint64  kept(uint64 n)                                  the number of entries; at most n
///     void    select(context<In, E>, source, ext::selected_entries<In> to)
///                                                             writes the indices in ascending order, and the values
///     size_t  select_scratch_bytes<Source>(uint64 n)          the scratch memory of `select`; by default 0
///
/// The source has the interface of core/source.hpp. If the source has residual write-back, `select` also writes
/// `source.old_residual(i)` of each selected element i to `to.old`. After that, `select` calls `source.store_input` for
/// every element. So error_feedback needs no separate pass over the tensor. `select` may read an element again after
/// that, so only sources that are exact have residual write-back here.
///
///   emits       kept(n) values of In in ascending order of indices; side information: the indices, in the format of
///               the index coder `Coder`
///   requires    n < 2^32 (std::invalid_argument)
///   complexity  that of `select`, and a few operations per kept entry
///   properties  a projection and isometric. Reproducible if `select` is; otherwise `Self` must declare its
///               own `traits`
template <class Self, detail::index_coder Coder = packed_indices>
class sparsifier : public codec_base {
 public:
  using engine_facets = ext::facets<ext::source, ext::source_scratch, ext::entries, detail::selects>;

  template <class In>
  using output = In;

  static constexpr codec_traits traits = {.projection = true, .isometric = true, .reproducible = true};

  sparsifier() = default;
  explicit sparsifier(Coder coder) : coder_(coder) {}

  Coder const& coder() const { return coder_; }

  shape output_shape(shape const& dims) const { return {kept_of(dims)}; }
  template <class In>
  std::size_t side_bytes(shape const& dims) const {
    return coder_.side_bytes(dims.n, kept_of(dims));
  }
  template <class Source>
  std::size_t select_scratch_bytes(std::uint64_t) const {
    return 0;
  }
  template <real In, executor E>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    return scratch_for<std::uint32_t>(kept_of(dims)) + working_bytes<ext::plain_source<In>>(exec, dims);
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y) const {
    auto const k = kept_of(cx.dims);
    auto* const indices = cx.ws.template take<std::uint32_t>(k).data;
    select_from(cx, ext::plain_source<In>{x.data}, ext::selected_entries<In>{indices, y.values.data}, y.side);
  }
  template <std::floating_point In, executor E, class Source>
  void encode_from(context<In, E> const& cx, Source const& from,
                   encoded_on<E, In> y) const requires ext::exact_source<Source> {
    auto picked = make_selected(cx);
    picked.values = y.values.data;
    select_from(cx, from, picked, y.side);
    write_back(cx, from, picked, y.values.data);
  }
  template <std::floating_point In, executor E, class Source>
  std::size_t scratch_bytes_from(E const& exec, shape const& dims) const requires ext::exact_source<Source> {
    auto const k = kept_of(dims);
    return scratch_for<std::uint32_t>(k) + 2 * scratch_for<In>(k) + working_bytes<Source>(exec, dims);
  }

  /// The following three functions are for a chain whose next stage encodes the selected entries. `make_selected`
  /// allocates memory for the entries from the workspace. `select_from` selects the entries and writes the indices to
  /// the side information. `write_back` passes the decoded values to the source.
  template <std::floating_point In, executor E>
  ext::selected_entries<In> make_selected(context<In, E> const& cx) const {
    auto const k = kept_of(cx.dims);
    auto* const indices = cx.ws.template take<std::uint32_t>(k).data;
    auto* const values = cx.ws.template take<In>(k).data;
    return {indices, values, cx.ws.template take<In>(k).data};
  }
  template <real In, executor E, class Source>
  void select_from(context<In, E> const& cx, Source const& from, ext::selected_entries<In> const& to,
                   span_on<E, std::byte> side) const {
    {
      auto const scope = cx.ws.mark();
      self().select(cx, from, to);
    }
    coder_.encode(cx.exec, cx.dims.n, kept_of(cx.dims), to.indices, side, cx.ws);
  }
  template <std::floating_point In, executor E, class Source>
  void write_back(context<In, E> const& cx, Source const& from, ext::selected_entries<In> const& of,
                  In const* sent) const requires ext::exact_source<Source> {
    cx.exec.for_each_index(kept_of(cx.dims), ext::write_back_selected<Source, In>{from, of, sent});
  }

  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, In const> y, values_on<E, In> x) const {
    auto const k = kept_of(cx.dims);
    auto* const indices = cx.ws.template take<std::uint32_t>(k).data;
    coder_.decode(cx.exec, cx.dims.n, k, y.side, indices, cx.ws);
    cx.exec.fill(x.data, std::byte{}, value_bytes<In>(cx.dims.n));
    cx.exec.for_each_index(k, detail::scatter_at<In>{y.values.data, indices, x.data});
  }

  std::uint64_t max_entries(shape const& dims) const { return kept_of(dims); }
  template <real In, executor E>
  void decode_entries(context<In, E> const& cx, encoded_on<E, In const> y, ext::selected_entries<In> const& to) const {
    auto const k = kept_of(cx.dims);
    coder_.decode(cx.exec, cx.dims.n, k, y.side, to.indices, cx.ws);
    cx.exec.copy(to.values, y.values.data, value_bytes<In>(k));
  }

 private:
  Self const& self() const { return static_cast<Self const&>(*this); }

  std::uint64_t kept_of(shape const& dims) const {
    auto const k = self().kept(dims.n);
    detail::require_indexable("sparsifier", dims.n);
    return k;
  }
  /// The scratch bytes of `select` or of the index coder, whichever is larger.
  template <class Source, class E>
  std::size_t working_bytes(E const& exec, shape const& dims) const {
    return std::max(self().template select_scratch_bytes<Source>(dims.n),
                    coder_.scratch_bytes(exec, dims.n, kept_of(dims)));
  }

  [[no_unique_address]] Coder coder_ = {};
};

}}  // namespace pith::PITH_ABI
