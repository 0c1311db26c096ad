// pith/sparsify/random_blocks.hpp — keep runs of neighbours that all ranks draw alike.
#pragma once

#include <pith/core/capability.hpp>
#include <pith/core/stage.hpp>
#include <pith/sparsify/density.hpp>
#include <pith/sparsify/random_k.hpp>

#include <algorithm>
#include <string>

namespace pith::inline v0 {

namespace detail {

/// The elements that a team copies at a time, and the most that a block has.
inline constexpr std::uint32_t block_room = 2048;

/// Blocks of `width` elements, one drawn from each stratum of them. A team takes as many as fit its room.
struct drawn_blocks {
  strata of;
  std::uint32_t width;

  PITH_HD std::uint32_t in_team() const { return block_room / width; }
  std::uint64_t teams() const { return (of.k + in_team() - 1) / in_team(); }
  PITH_HD std::uint32_t count(std::uint64_t first) const {
    return of.k - first < in_team() ? static_cast<std::uint32_t>(of.k - first) : in_team();
  }

  /// Where the blocks of a team begin in the tensor.
  template <class Team>
  PITH_HD void find(Team const& team, std::uint64_t first, std::uint64_t* begins) const {
    auto const own = *this;
    team.for_each(count(first), [=](std::uint32_t j) { begins[j] = own.of.index(first + j) * own.width; });
  }
};

template <class In, scaling Scaling>
struct gather_blocks {
  static constexpr std::uint32_t block_span = block_room;
  using memory = fast_array<std::uint64_t, block_room>;

  drawn_blocks from;
  In const* x;
  In* values;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t t) const {
    auto const first = t * from.in_team();
    auto const* const begins = fast.data();
    auto const own = *this;
    from.find(team, first, fast.data());
    team.for_each_in(from.count(first) * from.width, from.width, [=](std::uint32_t j) {
      auto const* const block = own.x + begins[j];
      auto* const to = own.values + (first + j) * own.from.width;
      auto const skip = j * own.from.width;
      auto const factor = static_cast<accum<In>>(own.from.of.width(first + j));
      return [=](std::uint32_t i) { to[i - skip] = scaled(block[i - skip], factor); };
    });
  }

 private:
  PITH_HD static In scaled(In value, accum<In> factor) {
    if constexpr (Scaling == scaling::none) {
      return value;
    } else {
      return element_cast<In>(element_cast<accum<In>>(value) * factor);
    }
  }
};

template <class In>
struct scatter_blocks {
  static constexpr std::uint32_t block_span = block_room;
  using memory = fast_array<std::uint64_t, block_room>;

  drawn_blocks to;
  In const* values;
  In* x;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t t) const {
    auto const first = t * to.in_team();
    auto const* const begins = fast.data();
    auto const own = *this;
    to.find(team, first, fast.data());
    team.for_each_in(to.count(first) * to.width, to.width, [=](std::uint32_t j) {
      auto const* const block = own.values + (first + j) * own.to.width;
      auto* const at = own.x + begins[j];
      auto const skip = j * own.to.width;
      return [=](std::uint32_t i) { at[i - skip] = block[i - skip]; };
    });
  }
};

}  // namespace detail

/// Keeps k = max(1, floor(density m)) of the m = floor(n / block) runs of `block` neighbours, one drawn from each of k
/// equal strata of them, the same on all ranks in a step, and the n mod block elements behind the last run; the others
/// become zero. `random_blocks<scaling::unbiased>` multiplies a run by the number of runs in its stratum.
///
///   emits    k block + n mod block values of In; no side record
///   needs    0 < density <= 1, 1 <= block <= 2048 (std::invalid_argument), m < 2^32
///   cost     a draw of 32 bits a run; whole lines of memory in place of the single values of random_k; no scratch
///   errors   a NaN that is not drawn does not travel
///   is       summable; unscaled: a projection, contractive with delta = 1 / ceil(m / k); unbiased:
///            omega = ceil(m / k) - 1
///   source   Vogels, Karimireddy and Jaggi, PowerSGD, NeurIPS 2019, "random block"; many small blocks instead of one
template <scaling Scaling = scaling::none>
class random_blocks : public pipeable {
 public:
  template <class In>
  using output = In;

  static constexpr bool is_projection = Scaling == scaling::none;
  static constexpr bool is_isometric = true;
  static constexpr bool is_reproducible = true;
  static constexpr sum_form sums = sum_form::encode;

  explicit random_blocks(double density, std::uint32_t block = 64) : density_("random_blocks", density), block_(block) {
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
  void encode(E const& exec, call const& id, shape const& dims, stream_on<E, In const> x, encoded_on<E, In> y,
              workspace_on<E>&) const {
    auto const blocks = drawn(id, dims.n);
    exec.for_each_block(blocks.teams(), detail::gather_blocks<In, Scaling>{blocks, x.data, y.values.data});
    auto const rest = dims.n % block_;
    exec.copy(y.values.data + (kept(dims.n) - rest), x.data + (dims.n - rest), stream_bytes<In>(rest));
  }
  template <real In, executor E>
  void decode(E const& exec, call const& id, shape const& dims, encoded_on<E, In const> y, stream_on<E, In> x,
              workspace_on<E>&) const {
    auto const blocks = drawn(id, dims.n);
    auto const rest = dims.n % block_;
    exec.fill(x.data, std::byte{}, stream_bytes<In>(dims.n - rest));
    exec.for_each_block(blocks.teams(), detail::scatter_blocks<In>{blocks, y.values.data, x.data});
    exec.copy(x.data + (dims.n - rest), y.values.data + (kept(dims.n) - rest), stream_bytes<In>(rest));
  }

 private:
  detail::drawn_blocks drawn(call const& id, std::uint64_t n) const {
    return {{draws(shared(id)), n / block_, density_.of(n / block_)}, block_};
  }

  /// The runs in the widest stratum, ceil(m / k).
  double widest(std::uint64_t n) const {
    auto const m = n / block_, k = density_.of(m);
    return m == 0 ? 1 : static_cast<double>((m + k - 1) / k);
  }

  detail::density density_;
  std::uint32_t block_;
};

static_assert(stage<random_blocks<>, float, detail::archetype> && projection<random_blocks<>> &&
              summable<random_blocks<>>);
static_assert(unbiased<random_blocks<scaling::unbiased>> && !contractive<random_blocks<scaling::unbiased>> &&
              rate_adjustable<random_blocks<>>);

}  // namespace pith::inline v0
