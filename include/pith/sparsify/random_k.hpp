// pith/sparsify/random_k.hpp — keep k entries that all ranks draw alike, or each its own.
#pragma once

#include <pith/core/capability.hpp>
#include <pith/core/stage.hpp>
#include <pith/sparsify/density.hpp>

#include <string>

namespace pith::inline v0 {

/// Whether random_k multiplies what it keeps by the inverse of its probability.
enum class scaling : std::uint8_t { none, unbiased };

/// Whether all ranks keep the same entries, whose values can then be summed on their way, or each rank others.
enum class drawing : std::uint8_t { shared, own };

namespace detail {

/// Stratum j of k is [j n / k, (j+1) n / k): one index is drawn from each, so that indices are distinct and ascend.
struct strata {
  draws random;
  std::uint64_t n, k;

  PITH_HD std::uint64_t first(std::uint64_t j) const { return j * n / k; }
  PITH_HD std::uint64_t width(std::uint64_t j) const { return first(j + 1) - first(j); }
  PITH_HD std::uint64_t index(std::uint64_t j) const { return first(j) + (random(j / 4).word[j % 4] * width(j) >> 32); }
};

template <class In, scaling Scaling>
struct gather_strata {
  strata from;
  In const* x;
  In* values;

  PITH_HD void operator()(std::uint64_t j) const {
    auto const kept = x[from.index(j)];
    if constexpr (Scaling == scaling::none) {
      values[j] = kept;
    } else {
      values[j] = element_cast<In>(element_cast<accum<In>>(kept) * static_cast<accum<In>>(from.width(j)));
    }
  }
};

template <class In>
struct scatter_strata {
  strata to;
  In const* values;
  In* x;
  PITH_HD void operator()(std::uint64_t j) const { x[to.index(j)] = values[j]; }
};

}  // namespace detail

/// Keeps k = max(1, floor(density n)) entries, one drawn from each of k equal strata, the same on all ranks in a step;
/// the others become zero. `random_k<scaling::unbiased>` multiplies what it keeps by the width of its stratum. With
/// `drawing::own` a rank draws for itself: payloads are gathered, and their mean over N ranks errs N times less where
/// it is unbiased.
///
///   emits    k values of In; no side record: the indices follow from seed, tensor and step, and the rank if it is own
///   needs    0 < density <= 1 (std::invalid_argument), n < 2^32
///   cost     k draws of 32 bits; no scratch
///   errors   a NaN that is not drawn does not travel
///   is       summable if shared; unscaled: a projection, contractive with delta = 1 / ceil(n / k);
///            unbiased: omega = ceil(n / k) - 1, for use without error feedback
///   source   Stich, Cordonnier and Jaggi, Sparsified SGD with Memory, NeurIPS 2018; strata instead of a permutation
template <scaling Scaling = scaling::none, drawing Drawing = drawing::shared>
class random_k : public pipeable {
 public:
  template <class In>
  using output = In;

  static constexpr bool is_projection = Scaling == scaling::none;
  static constexpr bool is_isometric = true;
  static constexpr bool is_reproducible = true;
  static constexpr sum_form sums = Drawing == drawing::shared ? sum_form::encode : sum_form::none;

  explicit random_k(double density) : density_("random_k", density) {}

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
  void encode(E const& exec, call const& id, shape const& dims, stream_on<E, In const> x, encoded_on<E, In> y,
              workspace_on<E>&) const {
    exec.for_each_index(kept(dims.n), detail::gather_strata<In, Scaling>{strata(id, dims.n), x.data, y.values.data});
  }
  template <real In, executor E>
  void decode(E const& exec, call const& id, shape const& dims, encoded_on<E, In const> y, stream_on<E, In> x,
              workspace_on<E>&) const {
    exec.fill(x.data, std::byte{}, stream_bytes<In>(dims.n));
    exec.for_each_index(kept(dims.n), detail::scatter_strata<In>{strata(id, dims.n), y.values.data, x.data});
  }

 private:
  detail::strata strata(call const& id, std::uint64_t n) const {
    return {draws(Drawing == drawing::shared ? shared(id) : id), n, kept(n)};
  }

  /// The width of the widest stratum, ceil(n / k).
  double widest(std::uint64_t n) const {
    auto const k = kept(n);
    return n == 0 ? 1 : static_cast<double>((n + k - 1) / k);
  }

  detail::density density_;
};

static_assert(stage<random_k<>, float, detail::archetype> && projection<random_k<>> && summable<random_k<>>);
static_assert(!summable<random_k<scaling::none, drawing::own>>);
static_assert(unbiased<random_k<scaling::unbiased>> && !contractive<random_k<scaling::unbiased>> &&
              !unbiased<random_k<>>);

}  // namespace pith::inline v0
