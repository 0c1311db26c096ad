// pith/sparsify/random_blocks.hpp — sparsification to random runs of neighbouring elements, equal on all ranks.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/scaling.hpp>
#include <pith/sparsify/detail/density.hpp>
#include <pith/sparsify/detail/strata.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The largest number of elements that a team copies at once. This is also the largest block size.
inline constexpr std::uint32_t block_room = strata_room;

/// Copies the drawn blocks, either to the kept values or back to the tensor. A block is a run of `width` elements. One
/// block is drawn from each stratum (strata.hpp). A team copies as many blocks as fit into `block_room` elements.
template <class Copy>
struct copy_blocks {
  static constexpr std::uint32_t items_per_block = block_room;
  using memory = drawn_strata<block_room>;

  strata of;
  std::uint32_t width;
  Copy copy;

  PITH_HD std::uint32_t in_team() const { return block_room / width; }
  std::uint64_t teams() const { return blocks_for(of.k, in_team()); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t t) const {
    auto const first = t * in_team();
    auto const count = block_size(of.k, first, in_team());
    of.draw(team, fast, first, count);
    auto const own = *this;
    auto const* const starts = fast.starts.data();
    auto const* const blocks = fast.drawn.data();
    team.for_each_in(count * width, width, [=](std::uint32_t j) {
      auto const one = own.copy.advanced(std::uint64_t{blocks[j]} * own.width, (first + j) * own.width);
      auto const skip = j * own.width;  // i counts from the team's first block
      auto const runs = starts[j + 1] - starts[j];
      return [=](std::uint32_t i) { one(i - skip, i - skip, runs); };
    });
  }
};

}  // namespace detail

/// Divides a tensor into m = floor(n / block) runs of `block` neighbouring elements. Divides the m runs into k = max(1,
/// floor(density m)) strata. A stratum consists of consecutive runs, and all strata have nearly equal numbers of runs.
/// In each step, keeps one random run of each stratum, which is the same run on all ranks. Also keeps the n mod block
/// elements after the last run. The other elements become zero. With `unbiased`, as in random_blocks(density, block,
/// unbiased), a kept run is multiplied by the number of runs in its stratum.
///
///   emits       k block + n mod block values of In; no side information
///   requires    0 < density <= 1, 1 <= block <= 2048 (std::invalid_argument), m < 2^32
///   complexity  32 random bits per run; reads whole cache lines, unlike random_k; no scratch memory
///   on NaN      a NaN outside the kept elements is not sent
///   properties  summable. Without `unbiased`, a projection, contractive with delta = 1 / ceil(m / k). With `unbiased`,
///               omega = ceil(m / k) - 1
///   reference   Vogels, Karimireddy and Jaggi, PowerSGD, NeurIPS 2019, "random block", but with many short runs
///               instead of one long run
template <scaling Scaling = scaling::none>
class random_blocks : public codec_base {
 public:
  using facets = ext::facets<ext::rate, ext::facet_if<Scaling == scaling::none, ext::contractive>,
                             ext::facet_if<Scaling == scaling::unbiased, ext::unbiased>>;

  template <class In>
  using output = In;

  static constexpr codec_traits traits = {
      .projection = Scaling == scaling::none, .isometric = true, .reproducible = true, .sums = sum_form::encode};

  explicit random_blocks(double density, std::uint32_t block = 64, option<Scaling> = {})
      : density_("random_blocks", density), block_(block) {
    detail::require(1 <= block && block <= detail::block_room, "random_blocks: block must be in [1, ",
                    detail::block_room, "], got ", block);
  }

  std::string name() const {
    auto const how = Scaling == scaling::none ? ")" : ",unbiased)";
    return detail::text("random_blocks(", density_.text(), ",", block_, how);
  }
  random_blocks at(double density) const { return random_blocks(density, block_); }
  std::uint32_t block() const { return block_; }
  std::uint64_t kept(std::uint64_t n) const { return density_.of(n / block_) * block_ + n % block_; }

  double delta(shape const& dims) const requires(Scaling == scaling::none) { return 1 / widest(dims.n); }
  double omega(shape const& dims) const requires(Scaling == scaling::unbiased) { return widest(dims.n) - 1; }

  shape output_shape(shape const& dims) const { return {kept(dims.n)}; }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y) const {
    copy(cx.exec, cx.id, cx.dims, detail::keep_drawn<In, Scaling>{x.data, y.values.data});
    auto const rest = cx.dims.n % block_;
    cx.exec.copy(y.values.data + (kept(cx.dims.n) - rest), x.data + (cx.dims.n - rest), value_bytes<In>(rest));
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, In const> y, values_on<E, In> x) const {
    auto const rest = cx.dims.n % block_;
    cx.exec.fill(x.data, std::byte{}, value_bytes<In>(cx.dims.n - rest));
    copy(cx.exec, cx.id, cx.dims, detail::restore_drawn<In>{y.values.data, x.data});
    cx.exec.copy(x.data + (cx.dims.n - rest), y.values.data + (kept(cx.dims.n) - rest), value_bytes<In>(rest));
  }

 private:
  template <class E, class Copy>
  void copy(E const& exec, encoding_id const& id, shape const& dims, Copy const& one) const {
    auto const m = dims.n / block_;
    auto const blocks = detail::copy_blocks<Copy>{{versioned_draws(shared(id)), m, density_.of(m)}, block_, one};
    exec.for_each_block(blocks.teams(), blocks);
  }

  double widest(std::uint64_t n) const { return detail::strata::widest(n / block_, density_.of(n / block_)); }

  detail::density density_;
  std::uint32_t block_;
};

static_assert(stage<random_blocks<>, float, archetype>);
static_assert(promises_of<random_blocks<scaling::unbiased>>.unbiased &&
              !promises_of<random_blocks<scaling::unbiased>>.contractive && detail::rate_adjustable<random_blocks<>>);

}}  // namespace pith::PITH_ABI
