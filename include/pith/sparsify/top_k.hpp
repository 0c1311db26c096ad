// pith/sparsify/top_k.hpp — sparsification to the k entries of largest magnitude.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/codec/measured.hpp>
#include <pith/codec/stage.hpp>
#include <pith/sparsify/detail/density.hpp>
#include <pith/sparsify/detail/nested_selection.hpp>
#include <pith/sparsify/elias_fano.hpp>
#include <pith/sparsify/select.hpp>
#include <pith/sparsify/sparsifier.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// Keeps the k entries of largest magnitude, where k = max(1, floor(density n)). The other elements become zero.
///
///   emits       k values of In in ascending order of indices; side information: the indices, in the format of the
///               index coder `Coder`
///   requires    0 < density <= 1, n < 2^32, and k <= 2^32 - 9 with elias_fano (std::invalid_argument)
///   complexity  about one pass over x if k is small compared with n, else five passes; scratch memory for a few values
///               per kept entry; the host does not wait
///   on NaN      NaN counts as larger than infinity, and infinity as larger than finite numbers. So NaN and infinity
///               reach the other ranks
///   properties  a projection, contractive with delta = k / n. Ties go to the smaller index
///   reference   Aji and Heafield, Sparse Communication for Distributed Gradient Descent, EMNLP 2017. Like Deep
///               Gradient Compression (Lin et al., ICLR 2018), top_k first computes a bound from a sample, and then
///               searches among the values that reach this bound. Unlike in that paper, top_k always keeps exactly k
///               entries
template <detail::index_coder Coder = elias_fano>
class top_k : public sparsifier<top_k<Coder>, Coder> {
  using base = sparsifier<top_k<Coder>, Coder>;

 public:
  using facets = ext::facets<ext::contractive, ext::rate>;
  using engine_facets = ext::extended<typename base::engine_facets, ext::measured>;

  using base::coder;

  static constexpr codec_traits traits = {.projection = true, .isometric = true, .reproducible = true};

  explicit top_k(double density, Coder with = {}) : base(with), density_("top_k", density) {}

  std::string name() const {
    auto const suffix = std::same_as<Coder, elias_fano> ? "" : detail::text(",", coder().name());
    return detail::text("top_k(", density_.text(), suffix, ")");
  }
  top_k at(double density) const { return top_k(density, coder()); }
  std::uint64_t kept(std::uint64_t n) const { return density_.of(n); }
  double delta(shape const& dims) const {
    return dims.n == 0 ? 1 : static_cast<double>(kept(dims.n)) / static_cast<double>(dims.n);
  }

  template <class In, executor E, class Source>
  void select(context<In, E> const& cx, Source const& from, ext::selected_entries<In> const& to) const {
    ext::select_largest(cx.exec, from, cx.dims.n, kept(cx.dims.n), to, cx.ws);
  }
  template <class Source>
  std::size_t select_scratch_bytes(std::uint64_t n) const {
    return ext::select_scratch_bytes<Source>(n, kept(n));
  }

  /// Selects the largest entries for each rate. Writes |x|^2, and for each rate the sum of squares of the selected
  /// entries, to `energies`. Each selection is made among the entries of the next larger selection. If the payload span
  /// is not empty, also selects this codec's own entries and writes them to the payload.
  template <real In, executor E, class Source>
  void encode_measured(context<In, E> const& cx, Source const& from, rate_list const& rates,
                       span_on<E, std::byte> payload, double* energies) const {
    if (cx.dims.n == 0) return cx.exec.fill(energies, std::byte{}, (1 + rates.size()) * sizeof(double));
    auto const scope = cx.ws.mark();
    auto picked = detail::nested_selection<In, E, Source>(cx.exec, from, cx.dims.n, cx.ws);
    for (auto const& level : levels(cx.dims, rates, !payload.empty())) {
      auto const& picks = picked.select(level.k);
      if (level.slot > 0) picked.sum_selected(energies + level.slot);
      if (level.slot > 0) continue;
      auto const y = detail::sections<In, E, std::byte>(level.k, payload);
      detail::clear_padding<E>(cx.exec, payload.first(payload.size() - y.side.size()), value_bytes<In>(level.k));
      cx.exec.copy(y.values.data, picks.values, value_bytes<In>(level.k));
      coder().encode(cx.exec, cx.dims.n, level.k, picks.indices, y.side, cx.ws);
      picked.write_back(picks.values);
    }
    picked.sum_all(energies);
  }
  template <real In, executor E, class Source>
  std::size_t measured_scratch_bytes(E const& exec, shape const& dims, rate_list const& rates, bool sends) const {
    using picked = detail::nested_selection<In, E, Source>;
    std::size_t stays = picked::own_bytes(dims.n), most = 0;
    for (auto const& level : levels(dims, rates, sends)) {
      stays += picked::kept_bytes(level.k);
      most = std::max({most, picked::scratch_bytes(dims.n, level.k), coder().scratch_bytes(exec, dims.n, level.k)});
    }
    return stays + most;
  }

 private:
  /// A selection of k entries. `slot` is 0 for the payload's selection, and 1 + i for the selection at the i-th rate.
  struct nested_level {
    std::uint64_t k;
    std::size_t slot;
  };
  struct level_list {
    std::array<nested_level, 1 + rate_list::most> levels = {};
    std::size_t size = 0;

    nested_level const* begin() const { return levels.data(); }
    nested_level const* end() const { return levels.data() + size; }
  };
  /// The selections in descending order of size. Each selection is made among the entries of the previous selection.
  level_list levels(shape const& dims, rate_list const& rates, bool sends) const {
    auto all = level_list();
    if (sends) all.levels[all.size++] = {kept(dims.n), 0};
    for (std::size_t i = 0; i < rates.size(); ++i) all.levels[all.size++] = {at(rates[i]).kept(dims.n), 1 + i};
    std::sort(all.levels.begin(), all.levels.begin() + all.size, [](auto& a, auto& b) { return a.k > b.k; });
    return all;
  }

  detail::density density_;
};

static_assert(stage<top_k<>, float, archetype>);
static_assert(!promises_of<top_k<>>.unbiased && detail::rate_adjustable<top_k<>>);

}}  // namespace pith::PITH_ABI
