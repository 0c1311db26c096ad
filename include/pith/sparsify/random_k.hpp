// pith/sparsify/random_k.hpp — sparsification to k random entries, which are equal on all ranks or drawn by each rank.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/scaling.hpp>
#include <pith/core/source.hpp>
#include <pith/sparsify/detail/density.hpp>
#include <pith/sparsify/detail/strata.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// With `drawing::shared`, all ranks keep the same entries, so that an all-reduce can sum the payloads. With
/// `drawing::own`, each rank draws its own entries.
enum class drawing : std::uint8_t { shared, own };

namespace options {
inline constexpr option<drawing::shared> shared = {};
inline constexpr option<drawing::own> own = {};
}  // namespace options

namespace detail {

/// Copies the drawn elements, one per stratum (strata.hpp), either to the kept values or back to the tensor.
template <class Copy>
struct copy_drawn {
  static constexpr std::uint32_t items_per_block = 512;
  using memory = drawn_strata<items_per_block>;

  strata of;
  Copy copy;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const first = block * items_per_block;
    auto const count = block_size(of.k, first, items_per_block);
    of.draw(team, fast, first, count);
    auto const one = copy;
    auto const* const starts = fast.starts.data();
    auto const* const drawn = fast.drawn.data();
    team.for_each(count, [=](std::uint32_t i) { one(drawn[i], first + i, starts[i + 1] - starts[i]); });
  }
};

}  // namespace detail

/// Divides the tensor into k = max(1, floor(density n)) strata. A stratum is a run of consecutive elements, and all
/// strata have nearly equal length. Keeps one random entry of each stratum. The other elements become zero. With
/// `unbiased`, as in random_k(density, unbiased), a kept entry is multiplied by the length of its stratum. By default,
/// all ranks keep the same entries in a step. With `own`, as in random_k(density, none, own) or random_k(density,
/// unbiased, own), each rank draws its own entries, and an exchange is an all-gather. With both `unbiased` and `own`,
/// the expected squared error of the mean over N ranks is 1 / N of the average of the ranks' expected squared errors.
///
///   emits       k values of In; no side information. The decoder computes the indices from seed, tensor and step, and
///               with `own` also from the rank
///   requires    0 < density <= 1 (std::invalid_argument), n < 2^32
///   complexity  32 random bits per kept entry; no scratch memory
///   on NaN      a NaN that is not among the kept entries is not sent
///   properties  summable if all ranks keep the same entries. Without `unbiased`, a projection, contractive with
///               delta = 1 / ceil(n / k). With `unbiased`, omega = ceil(n / k) - 1; use `unbiased` without error
///               feedback
///   reference   Stich, Cordonnier and Jaggi, Sparsified SGD with Memory, NeurIPS 2018, but with strata instead of a
///               permutation
template <scaling Scaling = scaling::none, drawing Drawing = drawing::shared>
class random_k : public codec_base {
 public:
  using facets = ext::facets<ext::rate, ext::facet_if<Scaling == scaling::none, ext::contractive>,
                             ext::facet_if<Scaling == scaling::unbiased, ext::unbiased>,
                             ext::facet_if<Drawing == drawing::own, ext::entries>>;

  template <class In>
  using output = In;

  static constexpr codec_traits traits = {.projection = Scaling == scaling::none,
                                          .isometric = true,
                                          .reproducible = true,
                                          .sums = Drawing == drawing::shared ? sum_form::encode : sum_form::none};

  explicit random_k(double density, option<Scaling> = {}, option<Drawing> = {}) : density_("random_k", density) {}

  std::string name() const {
    auto const how = Scaling == scaling::unbiased ? ",unbiased" : Drawing == drawing::own ? ",none" : "";
    return detail::text("random_k(", density_.text(), how, Drawing == drawing::own ? ",own)" : ")");
  }
  random_k at(double density) const { return random_k(density); }
  std::uint64_t kept(std::uint64_t n) const { return density_.of(n); }

  double delta(shape const& dims) const requires(Scaling == scaling::none) { return 1 / widest(dims.n); }
  double omega(shape const& dims) const requires(Scaling == scaling::unbiased) { return widest(dims.n) - 1; }

  shape output_shape(shape const& dims) const { return {kept(dims.n)}; }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y) const {
    copy(cx.exec, cx.id, cx.dims, detail::keep_drawn<In, Scaling>{x.data, y.values.data});
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, In const> y, values_on<E, In> x) const {
    cx.exec.fill(x.data, std::byte{}, value_bytes<In>(cx.dims.n));
    copy(cx.exec, cx.id, cx.dims, detail::restore_drawn<In>{y.values.data, x.data});
  }
  std::uint64_t max_entries(shape const& dims) const requires(Drawing == drawing::own) { return kept(dims.n); }
  template <real In, executor E>
    requires(Drawing == drawing::own)
  void decode_entries(context<In, E> const& cx, encoded_on<E, In const> y, ext::selected_entries<In> const& to) const {
    copy(cx.exec, cx.id, cx.dims, detail::list_drawn{to.indices});
    cx.exec.copy(to.values, y.values.data, value_bytes<In>(kept(cx.dims.n)));
  }

 private:
  template <class E, class Copy>
  void copy(E const& exec, encoding_id const& id, shape const& dims, Copy const& one) const {
    auto const of = detail::strata{versioned_draws(Drawing == drawing::shared ? shared(id) : id), dims.n, kept(dims.n)};
    using body = detail::copy_drawn<Copy>;
    exec.for_each_block(detail::blocks_for(of.k, body::items_per_block), body{of, one});
  }

  double widest(std::uint64_t n) const { return detail::strata::widest(n, kept(n)); }

  detail::density density_;
};

static_assert(stage<random_k<>, float, archetype>);
static_assert(promises_of<random_k<scaling::unbiased>>.unbiased &&
              !promises_of<random_k<scaling::unbiased>>.contractive && !promises_of<random_k<>>.unbiased);

}}  // namespace pith::PITH_ABI
