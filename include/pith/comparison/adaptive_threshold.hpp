// pith/comparison/adaptive_threshold.hpp — the largest elements of each sign, sent as indices and two means.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/stage.hpp>
#include <pith/comparison/detail/for_comparison.hpp>
#include <pith/sparsify/detail/density.hpp>
#include <pith/sparsify/packed_indices.hpp>

#include <algorithm>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// Keeps the max(1, floor(density m)) largest of the m positive elements, and replaces them with their mean. Keeps the
/// same fraction of the negative elements, and replaces them with their own mean. All other elements become zero. Works
/// only on `seq` and for float.
///
///   emits       one symbol of 1 bit per kept element, in ascending order of indices, padded with zeros to min(n,
///               max(1, floor(density n)) + 2) symbols. Symbol 1 means the negative mean. Side information: the number
///               of kept elements, the positive mean, the negative mean, and indices of ceil(log2 n) bits
///   requires    0 < density <= 1 (std::invalid_argument), n < 2^32
///   complexity  two selections, and a sort of the kept entries; scratch memory for n indices
///   on NaN      NaN counts as larger than infinity, and infinity as larger than finite numbers. A mean that includes
///               NaN or infinity is NaN. If x has no elements of a sign, the mean of that sign is 0
///   properties  variable rate; contractive with delta = 1 / n. For a given x, the largest possible delta is the sum
///               over both signs of s^2 / (k |x|^2), where k elements of the sign are kept, and s is the sum of their
///               magnitudes. Of two equal elements, the element with the smaller index is kept first. Use
///               adaptive_threshold with error feedback
///   reference   Dryden, Moon, Jacobs and Van Essen, Communication Quantization for Data-Parallel Training of Deep
///               Neural Networks, MLHPC 2016, in the form of GRACE's adaq. adaq searches thresholds on a sample in up
///               to 20 iterations, and stops if the number of entries is within a quarter of the target. If x has no
///               elements of a sign, adaq sends NaN
class adaptive_threshold : public codec_base {
 public:
  using facets = ext::facets<ext::contractive, ext::rate, ext::used>;

  template <class In>
  using output = packed<1>;

  static constexpr codec_traits traits = {.reproducible = true, .rates = rate_form::variable};

  explicit adaptive_threshold(double density) : density_("adaptive_threshold", density) {}

  std::string name() const { return detail::text("adaptive_threshold(", density_.text(), ")"); }
  adaptive_threshold at(double density) const { return adaptive_threshold(density); }
  double delta(shape const& dims) const { return dims.n == 0 ? 1 : 1 / static_cast<double>(dims.n); }

  /// The two additional entries are needed because at least one entry of each sign is kept.
  std::uint64_t capacity(std::uint64_t n) const { return std::min(n, density_.of(n) + 2); }

  shape output_shape(shape const& dims) const { return {capacity(dims.n)}; }
  template <class In>
  std::size_t side_bytes(shape const& dims) const {
    return used_side_bytes(dims, capacity(dims.n));
  }
  std::uint64_t used_values(shape const& dims, std::uint64_t count) const { return std::min(count, capacity(dims.n)); }
  std::size_t used_side_bytes(shape const& dims, std::uint64_t count) const {
    return sizeof(head) + packed_indices().side_bytes(dims.n, std::min(count, capacity(dims.n)));
  }

  template <real In, executor E>
  std::size_t scratch_bytes(E const&, shape const& dims) const {
    return scratch_for<std::uint32_t>(dims.n);
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, packed<1>> y) const {
    detail::for_comparison<In, E>();
    auto* const indices = cx.ws.template take<std::uint32_t>(cx.dims.n).data;
    auto* const above = keep_largest(x.data, cx.dims.n, 0, indices);
    auto* const end = keep_largest(x.data, cx.dims.n, 1, above);
    std::sort(indices, end);
    std::fill(end, std::max(end, indices + y.values.capacity), 0u);
    cx.exec.fill(y.values.data, std::byte{}, value_bytes<packed<1>>(y.values.capacity));
    auto sums = side_sums();
    for (auto const* at = indices; at < end; ++at) {
      auto const below = static_cast<unsigned>(detail::sign_bit(x.data[*at]));
      auto const j = static_cast<std::size_t>(at - indices);
      y.values.data[j / 8] = static_cast<std::uint8_t>(y.values.data[j / 8] | below << j % 8);
      sums.add(below, x.data[*at]);
    }
    *side_as<head>(y.side) = {static_cast<std::uint32_t>(end - indices), {sums.mean(0), sums.mean(1)}};
    packed_indices().encode(cx.exec, cx.dims.n, y.values.capacity, indices, y.side.subspan(sizeof(head)), cx.ws);
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, packed<1> const> y, values_on<E, In> x) const {
    detail::for_comparison<In, E>();
    auto* const indices = cx.ws.template take<std::uint32_t>(cx.dims.n).data;
    packed_indices().decode(cx.exec, cx.dims.n, y.values.capacity, y.side.subspan(sizeof(head)), indices, cx.ws);
    cx.exec.fill(x.data, std::byte{}, value_bytes<In>(cx.dims.n));
    auto const* const means = side_as<head>(y.side)->means;
    for (std::uint32_t j = 0; j < *y.values.count; ++j) {
      x.data[indices[j]] = means[y.values.data[j / 8] >> j % 8 & 1];
    }
  }

 private:
  struct head {
    std::uint32_t count;
    float means[2];
  };

  struct side_sums {
    double sum[2] = {}, count[2] = {};

    void add(unsigned side, float v) { sum[side] += static_cast<double>(v), ++count[side]; }
    float mean(unsigned side) const {
      return count[side] == 0 ? 0 : finite_or_nan(static_cast<float>(sum[side] / count[side]));
    }
  };

  /// Writes the indices of the largest elements of one sign, in any order. Returns the end of the written indices.
  std::uint32_t* keep_largest(float const* x, std::uint64_t n, int sign, std::uint32_t* to) const {
    auto* end = to;
    for (std::uint64_t i = 0; i < n; ++i) {
      if (detail::magnitude_bits(x[i]) != 0 && detail::sign_bit(x[i]) == sign) *end++ = static_cast<std::uint32_t>(i);
    }
    auto const kept = density_.of(static_cast<std::uint64_t>(end - to));
    std::nth_element(to, to + kept, end, [x](std::uint32_t a, std::uint32_t b) {
      auto const size_a = detail::magnitude_bits(x[a]), size_b = detail::magnitude_bits(x[b]);
      return size_a != size_b ? size_a > size_b : a < b;
    });
    return to + kept;
  }

  detail::density density_;
};

static_assert(stage<adaptive_threshold, float, archetype>);
static_assert(promises_of<adaptive_threshold>.contractive && detail::rate_adjustable<adaptive_threshold>);

}}  // namespace pith::PITH_ABI
