// tests/static/models/sparsifiers.hpp — the survey's sparsifiers that pith does not have, and DeepReduce's coders.
#pragma once

#include "declared.hpp"

namespace models {

/// Sends entries above a threshold, at most `most` of them, and their indices: small enough to run on one thread.
class hard_threshold : public pith::codec_base {
 public:
  using facets = pith::ext::facets<pith::ext::rate, pith::ext::bounded>;

  template <class In>
  using output = In;

  static constexpr pith::codec_traits traits = {
      .projection = true, .isometric = true, .rates = pith::rate_form::variable};

  explicit hard_threshold(double tau, std::uint64_t most = ~0ull) : tau_(tau), most_(most) {}

  std::string name() const { return "hard_threshold"; }
  hard_threshold at(double tau) const { return hard_threshold(tau, most_); }
  double error_bound(shape const&) const { return tau_; }

  shape output_shape(shape const& dims) const { return {std::min(dims.n, most_)}; }
  template <class In>
  std::size_t side_bytes(shape const& dims) const {
    return 4 + 4 * output_shape(dims).n;
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y) const {
    cx.exec.for_each_index(1, compact<In>{x.data, y.values.data, y.values.count, indices(y.side), cx.dims.n,
                                          output_shape(cx.dims).n, tau_});
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, In const> y, values_on<E, In> x) const {
    cx.exec.fill(x.data, std::byte{}, pith::value_bytes<In>(cx.dims.n));
    cx.exec.for_each_index(
        1, spread<In>{y.values.data, y.values.count, indices(y.side), x.data, cx.dims.n, output_shape(cx.dims).n});
  }

 private:
  static auto* indices(auto side) { return pith::side_as<std::uint32_t>(side.subspan(4)); }

  template <class In>
  struct compact {
    In const* x;
    In* values;
    std::uint32_t* count;
    std::uint32_t* indices;
    std::uint64_t n, most;
    double tau;
    PITH_HD void operator()(std::uint64_t) const {
      std::uint32_t m = 0;
      for (std::uint32_t i = 0; i < n && m < most; ++i) {
        auto const v = static_cast<double>(pith::element_cast<pith::accum<In>>(x[i]));
        if (v > tau || v < -tau) values[m] = x[i], indices[m++] = i;
      }
      *count = m;
      for (auto i = m; i < most; ++i) values[i] = In(0.0f), indices[i] = 0;
    }
  };
  template <class In>
  struct spread {
    In const* values;
    std::uint32_t const* count;
    std::uint32_t const* indices;
    In* x;
    std::uint64_t n, most;
    PITH_HD void operator()(std::uint64_t) const {
      for (std::uint32_t i = 0; i < *count && i < most; ++i) {
        if (indices[i] < n) x[indices[i]] = values[i];
      }
    }
  };

  double tau_;
  std::uint64_t most_;
};

/// Any sparsifier that finds its own threshold at every call.
struct estimated_threshold : declared {
  template <class In>
  using output = In;

  static constexpr pith::codec_traits traits = {
      .projection = true, .isometric = true, .rates = pith::rate_form::variable};

  shape output_shape(shape const&) const;
  template <class In>
  std::size_t side_bytes(shape const&) const;
};

/// DGC: the threshold of a sample. It may keep nothing, so that it promises no delta.
struct sampled_threshold : estimated_threshold {
  using facets = pith::ext::facets<pith::ext::rate>;

  static constexpr pith::codec_traits traits = {
      .projection = true, .isometric = true, .rates = pith::rate_form::variable};
  sampled_threshold at(double) const;
};

/// RedSync trimmed: exactly k entries.
struct trimmed_top_k : declared {
  using facets = pith::ext::facets<pith::ext::rate, pith::ext::contractive>;

  template <class In>
  using output = In;

  static constexpr pith::codec_traits traits = {.projection = true, .isometric = true};

  trimmed_top_k at(double) const;
  shape output_shape(shape const&) const;
  template <class In>
  std::size_t side_bytes(shape const&) const;
  double delta(shape const&) const;
};

/// DeepReduce, policy P0: the values of all positives are sent, so that there are at least the k largest.
struct bloom_superset : estimated_threshold {
  using facets = pith::ext::facets<pith::ext::rate, pith::ext::contractive>;

  bloom_superset at(double) const;
  double delta(shape const&) const;
};

/// DeepReduce's value coder: a polynomial through the sorted values; their order is side information.
struct polynomial : declared {
  template <class In>
  using output = float;

  shape output_shape(shape const&) const;
  template <class In>
  std::size_t side_bytes(shape const&) const;
};

}  // namespace models
