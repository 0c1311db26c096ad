// pith/lowrank/one_sided_power_sgd.hpp — low-rank compression with half a power iteration per step.
#pragma once

#include <pith/core/detail/summation.hpp>
#include <pith/core/executor.hpp>
#include <pith/lowrank/power_sgd.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Selects the steps in which *count % 2 equals `parity`, where *count is the number of completed steps. This number is
/// in the executor's memory, so the host cannot evaluate the condition.
struct turn {
  std::uint32_t const* count;
  std::uint32_t parity;
  PITH_HD bool is_on() const { return *count % 2 == parity; }
};

template <class F>
struct index_in_turn {
  F f;
  turn when;
  PITH_HD void operator()(std::uint64_t i) const {
    if (when.is_on()) f(i);
  }
};

template <class Body>
struct block_in_turn : Body {
  turn when;

  template <team Team>
  PITH_HD void operator()(Team const& team, typename Body::memory& fast, std::uint64_t block) const {
    if (when.is_on()) Body::operator()(team, fast, block);
  }
};

/// An executor whose loops call their functions only if `when.is_on()`.
template <executor E>
class in_turn : public E {
 public:
  in_turn() = default;
  in_turn(E const& exec, turn when) : E(exec), when_(when) {}

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    E::for_each_index(n, index_in_turn<F>{f, when_});
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    E::for_each_block(blocks, block_in_turn<Body>{body, when_});
  }

 private:
  turn when_{};
};

static_assert(executor<in_turn<archetype>>);

template <class A>
struct magnitude_of {
  A const* x;
  PITH_HD double operator()(std::uint64_t i) const { return static_cast<double>(magnitude(x[i])); }
};

/// Sets `to` to `share` times `sum`. If *largest, the largest magnitude in `sum`, is NaN or infinite, sets all elements
/// of `to` to NaN.
template <class A>
struct share_or_nan {
  A const* sum;
  A* to;
  double const* largest;
  A share;
  PITH_HD void operator()(std::uint64_t i) const {
    to[i] = is_finite(*largest) ? share * sum[i] : static_cast<A>(finite_or_nan(*largest));
  }
};

struct count_turn {
  std::uint32_t* count;
  PITH_HD void operator()(std::uint64_t) const { ++*count; }
};

}  // namespace detail

/// A variant of `power_sgd` with one all-reduce per step instead of two, for a matrix M with the factors P and Q. The
/// all-reduce sums P = M Q in one step and Q = M^T P in the next step. In each step, the right-hand side contains the
/// factor that the previous step computed, after its columns were made orthonormal. The decoded matrix P Q^T is a
/// projection of the mean of M over all ranks. The column space of the orthonormal factor defines this projection.
///
/// Outside an exchange, the stage behaves like `power_sgd` and emits the same payloads, because there is no previous
/// step.
///
///   emits       in an exchange, r max(rows, columns) values of accum<In>, where r is the argument `rank`. The shorter
///               factor is padded with zeros, because the number of completed steps (the turn) is in the executor's
///               memory, and the host does not read it
///   requires    as power_sgd
///   state       replicated: P, Q and the turn. No state in a chain
///   complexity  in an exchange, 4 r flop per element in double, which is 2 r flop fewer than power_sgd; reads M once;
///               scratch memory as power_sgd
///   on NaN      as power_sgd
///   properties  as power_sgd; lossless for the same shapes. For other shapes, delta = r / max(rows, columns) on
///               average over the random initial Q, whichever factor is sent first. If M does not change between steps,
///               two steps are equivalent to one step of power_sgd
///   reference   Vogels' library (num_iters_per_step = 1), which sends the factor without padding. The library's
///               residual is that of `own_residual`
class one_sided_power_sgd : public power_sgd {
 public:
  using facets = ext::facets<ext::contractive, ext::source, ext::costly_share, ext::rounds, ext::source_rounds>;

  using power_sgd::power_sgd;

  /// The factors P and Q, and the turn, which is the number of completed steps. A step updates P if the turn is even,
  /// and Q if the turn is odd.
  template <class A, executor E>
  struct turns : factors<A, E> {
    buffer<std::uint32_t, E> turn;
    void fields(field_visitor& f) {
      factors<A, E>::fields(f);
      f(turn);
    }
  };

  std::string name() const { return named("one_sided_power_sgd"); }
  double delta(shape const& dims) const {
    return is_lossless(dims)
               ? 1
               : static_cast<double>(rank(dims)) / static_cast<double>(std::max(dims.rows, dims.columns()));
  }

  template <real In, executor E>
  turns<accum<In>, E> make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    auto made = turns<accum<In>, E>{power_sgd::make_replicated<In>(exec, id, dims), {}};
    if (is_lossless(dims)) return made;
    made.turn = {exec, 1};
    auto const memory = buffer<std::byte, E>(exec, basis_scratch_bytes(dims));
    auto ws = workspace_on<E>(memory.view());
    detail::orthonormalize(exec, made.q.data(), dims.columns(), rank(dims), ws);
    return made;
  }

  unsigned rounds(shape const&, unsigned) const { return 1; }
  template <real In>
  transfer round(unsigned, shape const& dims, unsigned) const {
    if (is_lossless(dims)) return {transport::all_reduce_sum, kind_of<accum<In>>(), dims.n};
    return transfer_of<accum<In>>(factor_size(dims));
  }
  template <real In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned) const {
    if (is_lossless(dims)) return 0;
    return factor_scratch_bytes<accum<In>>(dims) +
           std::max({scratch_bytes<In>(exec, dims), basis_scratch_bytes(dims),
                     scratch_for<double>(1) + detail::reduce_scratch_bytes<double>(factor_size(dims))});
  }

  template <real In, executor E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               turns<accum<In>, E> const& replicated, no_state& local) const {
    if (is_lossless(cx.dims)) return power_sgd::produce<In>(cx, round, x, out, replicated, local);
    produce_from(cx, round, ext::plain_source<In>{x.data}, out, replicated);
  }
  template <real In, executor E>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x,
              turns<accum<In>, E>& replicated, no_state& local) const {
    if (is_lossless(cx.dims)) return power_sgd::absorb<In>(cx, round, in, x, replicated, local);
    absorb_to(cx, in, ext::tensor_sink<In>{x.data, 1}, replicated);
  }

  /// Computes the rank's own share of the mean (codec/detail/own_share.hpp). This is the product of the factor that
  /// this rank produced and the orthonormal factor, and takes one additional product.
  template <real In, executor E>
  void own_contribution(context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
                        turns<accum<In>, E> const& replicated) const {
    if (is_lossless(cx.dims)) return power_sgd::own_contribution<In>(cx, produced, sent, replicated);
    auto const scope = cx.ws.mark();
    auto const* const mine = widened<accum<In>>(cx.exec, produced, factor_size(cx.dims), cx.ws);
    auto const to = ext::tensor_sink<In>{sent.data, 1};
    detail::expand(even(cx.exec, replicated), thin(cx.dims), mine, replicated.q.data(), to, cx.ws);
    detail::expand(odd(cx.exec, replicated), thin(cx.dims), replicated.p.data(), mine, to, cx.ws);
  }

  /// Variants of `produce` and `absorb`, for shapes that are not lossless. `produce_from` reads M from a source, and
  /// `absorb_to` writes the mean to a sink.
  template <class In, executor E, class Source>
  void produce_from(context<In, E> const& cx, unsigned, Source const& from, span_on<E, std::byte> out,
                    turns<accum<In>, E> const& replicated) const {
    auto const n = factor_size(cx.dims);
    send<accum<In>>(cx.exec, out, n, cx.ws, [&](accum<In>* to) {
      cx.exec.fill(to, std::byte{}, n * sizeof *to);
      detail::multiply(even(cx.exec, replicated), thin(cx.dims), from, replicated.q.data(), to, cx.ws);
      detail::multiply_transposed(odd(cx.exec, replicated), thin(cx.dims), from, replicated.p.data(), to, cx.ws);
    });
  }
  template <class In, executor E, class Sink>
  void absorb_to(context<In, E> const& cx, received_on<E> in, Sink const& to, turns<accum<In>, E>& replicated) const {
    using A = accum<In>;
    auto const scope = cx.ws.mark();
    auto const* const sum = widened<A>(cx.exec, in.bytes, factor_size(cx.dims), cx.ws);
    auto const share = is_rounded() ? A{1} : A{1} / static_cast<A>(cx.ranks);
    take_mean(even(cx.exec, replicated), sum, share, replicated.p, cx.ws);
    take_mean(odd(cx.exec, replicated), sum, share, replicated.q, cx.ws);
    detail::expand(cx.exec, thin(cx.dims), replicated.p.data(), replicated.q.data(), to, cx.ws);
    make_basis(even(cx.exec, replicated), cx.id, cx.dims, cx.dims.rows, replicated.p.data(), cx.ws);
    make_basis(odd(cx.exec, replicated), cx.id, cx.dims, cx.dims.columns(), replicated.q.data(), cx.ws);
    cx.exec.for_each_index(1, detail::count_turn{replicated.turn.data()});
  }

 private:
  template <class A, class E>
  static detail::in_turn<E> even(E const& exec, turns<A, E> const& replicated) {
    return {exec, {replicated.turn.data(), 0}};
  }
  template <class A, class E>
  static detail::in_turn<E> odd(E const& exec, turns<A, E> const& replicated) {
    return {exec, {replicated.turn.data(), 1}};
  }

  /// The number of values in a transfer: that of the longer factor.
  std::uint64_t factor_size(shape const& dims) const { return std::max(p_size(dims), q_size(dims)); }
  std::size_t basis_scratch_bytes(shape const& dims) const {
    return detail::orthonormalize_scratch_bytes(std::max(dims.rows, dims.columns()), rank(dims));
  }

  /// Sets `factor` to the mean over the ranks. A single NaN or infinity makes the whole factor NaN, so that all decoded
  /// values are NaN.
  template <class Turn, class A, class E>
  static void take_mean(Turn const& exec, A const* sum, A share, buffer<A, E>& factor, workspace_on<E>& ws) {
    auto const scope = ws.mark();
    auto* const largest = ws.template take<double>(1).data;
    detail::reduce_into(exec, largest, factor.size(), detail::magnitude_of<A>{sum}, detail::larger(), 0.0, ws);
    exec.for_each_index(factor.size(), detail::share_or_nan<A>{sum, factor.data(), largest, share});
  }

  /// Replaces a factor by the orthonormal factor that the next step needs.
  template <class E, class A>
  void make_basis(E const& exec, encoding_id const& id, shape const& dims, std::uint64_t rows, A* factor,
                  workspace_on<E>& ws) const {
    renew(exec, id, dims, rows, factor);
    detail::orthonormalize(exec, factor, rows, rank(dims), ws);
  }
};

static_assert(stage<one_sided_power_sgd, float, archetype> && collective<one_sided_power_sgd, float, archetype>);
static_assert(promises_of<one_sided_power_sgd>.contractive);

}}  // namespace pith::PITH_ABI
