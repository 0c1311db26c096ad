// pith/lowrank/power_sgd.hpp — low-rank compression by power iteration.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/error.hpp>
#include <pith/core/source.hpp>
#include <pith/lowrank/detail/approx_normal.hpp>
#include <pith/lowrank/detail/orthonormalize.hpp>
#include <pith/lowrank/detail/thin_product.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// How an exchange transfers the factors of power_sgd. With `bfloat16`, the ranks' values are added in float, and
/// magnitudes have the range of float, also for gradients of double. The residual of `own_residual` does not contain the
/// rounding of the mean.
enum class factor_format : std::uint8_t {
  full,      ///< as accum<In>, in all-reduces
  bfloat16,  ///< rounded to bfloat16, in mean transfers (transport::all_reduce_mean)
};

/// Encodes a matrix M as two factors, P = orth(M Q) and Q' = M^T P. Each factor has r columns, where r is the argument
/// `rank`. Q is random or the Q' of the previous step. The function `orth` makes the columns orthonormal. The factors
/// decode to P Q'^T, which is the projection of M on the column space of P.
///
/// In an exchange, two transfers sum or average the ranks' factors: first P, then Q'. The decoded P Q'^T is then the
/// projection of the mean of M over all ranks. The next step starts with this Q' (warm start). If the largest magnitude
/// of a column of Q' is far from 1, the column is multiplied by a power of two, which does not change orth(M Q').
/// Outside an exchange, each step starts with another random Q. A gradient_exchange sums the factors P of all tensors
/// in one transfer, and the factors Q' in another transfer.
///
///   emits       (rows + columns) r values of accum<In>: P, then Q', row-major
///   requires    rank >= 1, 1 <= min_rate < infinity; a matrix shape, in which `rows` divides n
///               (std::invalid_argument). If all magnitudes are below the largest number of accum<In> divided by 5
///               ranks max(rows, columns), P and Q' are finite. With a warm start, the limit is up to 2^28 times
///               smaller, and Q' may hold elements up to 2^30. Larger elements may make the mean NaN. Magnitudes below
///               2^-100 (for double, 2^-960) lose digits, with a warm start below 2^-70 (2^-930)
///   state       replicated: P and Q. No state in a chain
///   complexity  4 r flop per element to encode, and 6 r flop per element in an exchange, in double; reads M twice;
///               scratch memory of n / 8 bytes, plus 8 r bytes per row and per column
///   on NaN      a single NaN or infinity on any rank makes the mean NaN on all ranks. The next step starts with a
///               random Q
///   properties  lossless if n < min_rate r (rows + columns), so that vectors and small matrices are sent unchanged.
///               For other shapes, contractive with delta = r / min(rows, columns) on average over random Q; use
///               power_sgd with error feedback. factor_format::bfloat16 rounds the factors of each rank and their means
///               by up to 2^-8 of their magnitudes. Payloads and decoded values do not depend on the instruction set or
///               on the order of blocks. Sums have a fixed order, and each product that is added is exact (for doubles,
///               if the product neither overflows nor underflows)
///   reference   Vogels, Karimireddy and Jaggi, PowerSGD, NeurIPS 2019. Unlike in that paper, a column that becomes
///               zero is replaced by a random column
class power_sgd : public codec_base {
 public:
  using facets = ext::facets<ext::contractive, ext::source, ext::costly_share, ext::rounds, ext::source_rounds>;

  template <class In>
  using output = accum<In>;

  static constexpr codec_traits traits = {.reproducible = true, .keeps_for_exchange = true};

  explicit power_sgd(unsigned rank, double min_rate = 2, factor_format format = factor_format::full)
      : rank_(rank), min_rate_(min_rate), format_(format) {
    detail::require(rank >= 1, "power_sgd: rank must be at least 1, got ", rank);
    detail::require(1 <= min_rate && min_rate < HUGE_VAL, "power_sgd: min_rate must be finite and at least 1, got ",
                    min_rate);
  }

  template <class A, executor E>
  struct factors {
    buffer<A, E> p, q;
    void fields(field_visitor& f) {
      f(p);
      f(q);
    }
  };

  std::string name() const { return named("power_sgd"); }
  /// True if n is less than `min_rate` times the number of values in both factors. Such a tensor is sent unchanged.
  bool is_lossless(shape const& dims) const {
    auto const values = static_cast<double>(rank(dims) * (dims.rows + dims.columns()));
    return dims.n == 0 || min_rate_ * values > static_cast<double>(dims.n);
  }
  double delta(shape const& dims) const {
    return is_lossless(dims)
               ? 1
               : static_cast<double>(rank(dims)) / static_cast<double>(std::min(dims.rows, dims.columns()));
  }

  shape output_shape(shape const& dims) const {
    check(dims);
    return is_lossless(dims) ? shape{dims.n} : shape{p_size(dims) + q_size(dims)};
  }

  template <real In, executor E>
  factors<accum<In>, E> make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    check(dims);
    if (is_lossless(dims)) return {};
    auto made = factors<accum<In>, E>{{exec, p_size(dims)}, {exec, q_size(dims)}};
    draw(exec, id, dims, made.q.data());
    return made;
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, accum<In>> y) const {
    if (is_lossless(cx.dims))
      return cx.exec.for_each_index(cx.dims.n, detail::convert<accum<In>, In>{x.data, y.values.data});
    factorize(cx, ext::plain_source<In>{x.data}, y.values.data);
  }
  template <std::floating_point In, executor E, class Source>
  void encode_from(context<In, E> const& cx, Source const& from, encoded_on<E, In> y) const
      requires(Source::stores_residual) {
    auto const* const p = y.values.data;
    factorize(cx, from, y.values.data);
    detail::expand(cx.exec, thin(cx.dims), p, p + p_size(cx.dims), ext::unsent_sink<Source>{from}, cx.ws);
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, accum<In> const> y, values_on<E, In> x) const {
    auto const* const p = y.values.data;
    if (is_lossless(cx.dims)) return cx.exec.for_each_index(cx.dims.n, detail::convert<In, accum<In>>{p, x.data});
    detail::expand(cx.exec, thin(cx.dims), p, p + p_size(cx.dims), ext::tensor_sink<In>{x.data, 1}, cx.ws);
  }
  template <real In, executor E>
  std::size_t scratch_bytes(E const&, shape const& dims) const {
    if (is_lossless(dims)) return 0;
    return std::max(detail::thin_scratch_bytes(thin(dims)),
                    detail::orthonormalize_scratch_bytes(dims.rows, rank(dims)));
  }

  unsigned rounds(shape const& dims, unsigned) const { return is_lossless(dims) ? 1 : 2; }
  template <real In>
  transfer round(unsigned r, shape const& dims, unsigned) const {
    if (is_lossless(dims)) return {transport::all_reduce_sum, kind_of<accum<In>>(), dims.n};
    return transfer_of<accum<In>>(r == 0 ? p_size(dims) : q_size(dims));
  }
  template <real In, executor E>
  std::size_t exchange_scratch_bytes(E const& exec, shape const& dims, unsigned) const {
    return scratch_bytes<In>(exec, dims) + factor_scratch_bytes<accum<In>>(dims);
  }

  template <real In, executor E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               factors<accum<In>, E> const& replicated, no_state&) const {
    if (is_lossless(cx.dims)) {
      auto const part = 1 / divisor<accum<In>>(cx.ranks);
      return cx.exec.for_each_index(cx.dims.n, detail::scale<accum<In>, In>{x.data, side_as<accum<In>>(out), part});
    }
    produce_from(cx, round, ext::plain_source<In>{x.data}, out, replicated);
  }
  template <real In, executor E>
  void absorb(context<In, E> const& cx, unsigned round, received_on<E> in, values_on<E, In> x,
              factors<accum<In>, E>& replicated, no_state&) const {
    using A = accum<In>;
    if (is_lossless(cx.dims)) {
      auto const share = divisor<A>(cx.ranks) / static_cast<A>(cx.ranks);
      cx.exec.for_each_index(cx.dims.n, detail::scale<In, A>{side_as<A>(in.bytes), x.data, share});
    } else if (round == 0) {
      receive(cx.exec, in, A{1}, replicated.p.data(), p_size(cx.dims));
      detail::orthonormalize(cx.exec, replicated.p.data(), cx.dims.rows, rank(cx.dims), cx.ws);
    } else {
      absorb_to(cx, in, ext::tensor_sink<In>{x.data, 1}, replicated);
    }
  }

  /// Computes the rank's own share of the mean (codec/detail/own_share.hpp). The share is P Q^T, where Q is the
  /// factor that this rank produced in the last round. This takes one additional product.
  template <real In, executor E>
  void own_contribution(context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
                        factors<accum<In>, E> const& replicated) const {
    using A = accum<In>;
    if (is_lossless(cx.dims))
      return cx.exec.for_each_index(cx.dims.n,
                                    detail::scale<In, A>{side_as<A>(produced), sent.data, divisor<A>(cx.ranks)});
    auto const scope = cx.ws.mark();
    auto const* const q = widened<A>(cx.exec, produced, q_size(cx.dims), cx.ws);
    detail::expand(cx.exec, thin(cx.dims), replicated.p.data(), q, ext::tensor_sink<In>{sent.data, 1}, cx.ws);
  }

  /// Variants of `produce` and `absorb`, for shapes that are not lossless. `produce_from` reads M from a source.
  /// `absorb_to` absorbs the last round and writes the mean to a sink.
  template <class In, executor E, class Source>
  void produce_from(context<In, E> const& cx, unsigned round, Source const& from, span_on<E, std::byte> out,
                    factors<accum<In>, E> const& replicated) const {
    send<accum<In>>(cx.exec, out, round == 0 ? p_size(cx.dims) : q_size(cx.dims), cx.ws, [&](accum<In>* to) {
      if (round == 0) return detail::multiply(cx.exec, thin(cx.dims), from, replicated.q.data(), to, cx.ws);
      detail::multiply_transposed(cx.exec, thin(cx.dims), from, replicated.p.data(), to, cx.ws);
    });
  }
  template <class In, executor E, class Sink>
  void absorb_to(context<In, E> const& cx, received_on<E> in, Sink const& to, factors<accum<In>, E>& replicated) const {
    using A = accum<In>;
    receive(cx.exec, in, A{1} / static_cast<A>(cx.ranks), replicated.q.data(), q_size(cx.dims));
    detail::expand(cx.exec, thin(cx.dims), replicated.p.data(), replicated.q.data(), to, cx.ws);
    renew(cx.exec, cx.id, cx.dims, cx.dims.columns(), replicated.q.data());
  }

 protected:
  std::string named(char const* word) const {
    auto const rate = min_rate_ == 2 && !is_rounded() ? "" : detail::text(",", detail::shortest(min_rate_));
    return detail::text(word, "(", rank_, rate, is_rounded() ? ",bfloat16" : "", ")");
  }

  std::uint64_t rank(shape const& dims) const {
    return std::min<std::uint64_t>(
        {rank_, std::max<std::uint64_t>(dims.rows, 1), std::max<std::uint64_t>(dims.columns(), 1)});
  }
  detail::thin_shape thin(shape const& dims) const { return {dims.rows, dims.columns(), rank(dims)}; }
  std::uint64_t p_size(shape const& dims) const { return dims.rows * rank(dims); }
  std::uint64_t q_size(shape const& dims) const { return dims.columns() * rank(dims); }

  bool is_rounded() const { return format_ == factor_format::bfloat16; }
  /// The transfer of a factor with `count` values.
  template <class A>
  transfer transfer_of(std::uint64_t count) const {
    if (!is_rounded()) return {transport::all_reduce_sum, kind_of<A>(), count};
    return {transport::all_reduce_mean, kind_of<bfloat16>(), count};
  }
  template <class A>
  std::size_t factor_scratch_bytes(shape const& dims) const {
    if (!is_rounded() || is_lossless(dims)) return 0;
    return scratch_for<A>(std::max(p_size(dims), q_size(dims)));
  }
  /// Calls compute(to), which writes a factor of n values to `to`, and writes the factor to `out` in its format.
  template <class A, executor E, class F>
  void send(E const& exec, span_on<E, std::byte> out, std::uint64_t n, workspace_on<E>& ws, F const& compute) const {
    if (!is_rounded()) return compute(side_as<A>(out));
    auto const scope = ws.mark();
    auto const computed = ws.template take<A>(n);
    compute(computed.data);
    exec.for_each_index(n, detail::convert<bfloat16, A>{computed.data, side_as<bfloat16>(out)});
  }
  /// The n values of a transfer's buffer, in scratch memory if they are rounded.
  template <class A, executor E>
  A const* widened(E const& exec, span_on<E, std::byte const> buffer, std::uint64_t n, workspace_on<E>& ws) const {
    if (!is_rounded()) return side_as<A>(buffer);
    auto const wide = ws.template take<A>(n);
    exec.for_each_index(n, detail::convert<A, bfloat16>{side_as<bfloat16>(buffer), wide.data});
    return wide.data;
  }
  /// Sets `factor` to `share` times the received sum, or to the received mean.
  template <class A, executor E>
  void receive(E const& exec, received_on<E> in, A share, A* factor, std::uint64_t n) const {
    if (is_rounded()) return exec.for_each_index(n, detail::convert<A, bfloat16>{side_as<bfloat16>(in.bytes), factor});
    if (share == 1) return exec.copy(factor, in.bytes.data(), n * sizeof(A));
    exec.for_each_index(n, detail::scale<A, A>{side_as<A>(in.bytes), factor, share});
  }

  /// Replaces a column of a factor with random numbers if the column is zero or contains NaN or infinity. Without this
  /// replacement, such a column would stay zero or NaN in all later steps. Multiplies other columns by powers of two,
  /// so that the product of M and the factor has about the scale of M, not its square.
  template <class E, class A>
  void renew(E const& exec, encoding_id const& id, shape const& dims, std::uint64_t rows, A* factor) const {
    exec.for_each_block(rank(dims), detail::renew_column<A>{draws(shared(id)), factor, rows, rank(dims)});
  }

 private:
  template <class In, executor E, class Source>
  void factorize(context<In, E> const& cx, Source const& from, accum<In>* p) const {
    auto* const q = p + p_size(cx.dims);
    draw(cx.exec, cx.id, cx.dims, q);
    detail::multiply(cx.exec, thin(cx.dims), from, q, p, cx.ws);
    detail::orthonormalize(cx.exec, p, cx.dims.rows, rank(cx.dims), cx.ws);
    detail::multiply_transposed(cx.exec, thin(cx.dims), from, p, q, cx.ws);
  }

  static void check(shape const& dims) {
    detail::require(dims.rows >= 1 && dims.n % dims.rows == 0, "power_sgd: rows must divide the ", dims.n,
                    " elements of the tensor, got ", dims.rows);
  }

  /// The power of two by which values of a lossless shape are divided before their sum, which might otherwise overflow.
  template <class A>
  static A divisor(unsigned ranks) {
    return static_cast<A>(std::bit_ceil(ranks));
  }

  template <class E, class A>
  void draw(E const& exec, encoding_id const& id, shape const& dims, A* q) const {
    auto const body = detail::draw_bell<A>{draws(shared(id)), q, q_size(dims)};
    exec.for_each_block(body.blocks(), body);
  }

  unsigned rank_;
  double min_rate_;
  factor_format format_;
};

static_assert(stage<power_sgd, float, archetype> && collective<power_sgd, float, archetype>);
static_assert(promises_of<power_sgd>.contractive);

}}  // namespace pith::PITH_ABI
