// tests/static/models/collectives.hpp — exchanges of several rounds, and a summable affine stage.
#pragma once

#include "declared.hpp"

namespace models {

/// GradiVeQ: z = U^T x is summed, and U z + (1 - U U^T) mu is decoded: affine, which the decode form allows. The
/// basis is replicated state, the samples for the next basis are rank-local.
struct gradiveq : pith::codec_base {
  template <class In>
  using output = pith::accum<In>;

  static constexpr pith::codec_traits traits = {.affine = true, .sums = pith::sum_form::decode};

  template <class A, executor E>
  struct basis {
    pith::buffer<A, E> vectors, mean;
    void fields(pith::field_visitor& f) { f(vectors), f(mean); }
  };

  std::string name() const;
  shape output_shape(shape const&) const;
  template <real In, executor E>
  basis<pith::accum<In>, E> make_replicated(E const&, encoding_id const&, shape const&) const;
  template <real In, executor E>
  numbers<pith::accum<In>, E> make_local(E const&, shape const&) const;

  template <real In, executor E>
  void encode(context<In, E> const&, values_on<E, In const>, encoded_on<E, pith::accum<In>>,
              basis<pith::accum<In>, E> const&, numbers<pith::accum<In>, E>&) const;
  template <real In, executor E>
  void decode(context<In, E> const&, encoded_on<E, pith::accum<In> const>, values_on<E, In>,
              basis<pith::accum<In>, E> const&) const;
};

/// Of GradiVeQ, what can be computed by hand: basis (1, 0), mean (0, 5). It runs.
struct first_of_two : pith::codec_base {
  template <class In>
  using output = float;

  static constexpr pith::codec_traits traits = {.affine = true, .sums = pith::sum_form::decode};

  std::string name() const { return "first_of_two"; }
  shape output_shape(shape const&) const { return {1}; }

  template <executor E>
  void encode(context<float, E> const&, values_on<E, float const> x, encoded_on<E, float> y) const {
    y.values.data[0] = x.data[0];
  }
  template <executor E>
  void decode(context<float, E> const&, encoded_on<E, float const> y, values_on<E, float> x) const {
    x.data[0] = y.values.data[0];
    x.data[1] = 5;
  }
};

/// QSGD with a scale that all share: the maximum, then a sum of whole levels. It runs.
template <int Bits>
class shared_scale : public pith::codec_base {
 public:
  using facets = pith::ext::facets<pith::ext::unbiased, pith::ext::rounds, pith::ext::share>;

  template <executor E>
  using state = numbers<float, E>;

  std::string name() const { return "shared_scale"; }
  double omega(shape const& dims) const { return static_cast<double>(dims.n) / (4.0 * rule().levels * rule().levels); }

  template <real In, executor E>
  state<E> make_replicated(E const& exec, encoding_id const&, shape const&) const {
    return {{exec, 1}};
  }

  unsigned rounds(shape const&, unsigned) const { return 2; }
  template <real In>
  transfer round(unsigned r, shape const& dims, unsigned) const {
    return r == 0 ? transfer{transport::all_reduce_max, pith::element_kind::f32, 1}
                  : transfer{transport::all_reduce_sum, pith::element_kind::i32, dims.n};
  }
  template <real In, executor E>
  std::size_t exchange_scratch_bytes(E const&, shape const& dims, unsigned) const {
    return pith::scratch_for<double>(1) + pith::detail::reduce_scratch_bytes<double>(dims.n);
  }

  template <real In, executor E>
  void produce(context<In, E> const& cx, unsigned round, values_on<E, In const> x, span_on<E, std::byte> out,
               state<E> const& replicated, pith::no_state&) const {
    if (round == 1) {
      auto* const levels = pith::side_as<std::int32_t>(out);
      return cx.exec.for_each_index(cx.dims.n,
                                    count<In>{rule(), pith::draws(cx.id), x.data, replicated.values.data(), levels});
    }
    auto* const most = cx.ws.template take<double>(1).data;
    pith::detail::reduce_into(cx.exec, most, cx.dims.n, size<In>{x.data}, pith::detail::larger{}, 0.0, cx.ws);
    cx.exec.for_each_index(1, pith::detail::convert<float, double>{most, pith::side_as<float>(out)});
  }
  template <real In, executor E>
  void absorb(context<In, E> const& cx, unsigned round, pith::received_on<E> in, values_on<E, In> x,
              state<E>& replicated, pith::no_state&) const {
    auto* const unit = replicated.values.data();
    if (round == 0) return cx.exec.for_each_index(1, finish{rule(), pith::side_as<float>(in.bytes), unit});
    cx.exec.for_each_index(
        cx.dims.n, value<In>{pith::side_as<std::int32_t>(in.bytes), unit, x.data, 1 / static_cast<float>(cx.ranks)});
  }
  template <real In, executor E>
  void contribution(context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
                    state<E> const& replicated) const {
    cx.exec.for_each_index(cx.dims.n,
                           value<In>{pith::side_as<std::int32_t>(produced), replicated.values.data(), sent.data, 1});
  }

 private:
  using rule_type = pith::detail::qsgd_rule<Bits>;
  static rule_type rule() { return {pith::qsgd<Bits>::max_levels, pith::norm::max}; }

  template <class In>
  struct size {
    In const* x;
    PITH_HD double operator()(std::uint64_t i) const {
      return rule().measure(pith::element_cast<pith::accum<In>>(x[i]));
    }
    PITH_HD static rule_type rule() { return {1, pith::norm::max}; }
  };
  struct finish {
    rule_type rule;
    float const* most;
    float* unit;
    PITH_HD void operator()(std::uint64_t) const { *unit = rule.finish(static_cast<double>(*most), 1, 0.0f); }
  };
  template <class In>
  struct count {
    rule_type rule;
    pith::draws random;
    In const* x;
    float const* unit;
    std::int32_t* levels;
    PITH_HD void operator()(std::uint64_t i) const {
      auto const symbol = rule.code(pith::element_cast<float>(x[i]), rule.refine(*unit),
                                    random(i / 8).lane(static_cast<unsigned>(i % 8)));
      levels[i] = static_cast<std::int32_t>(symbol << (32 - Bits)) >> (32 - Bits);
    }
  };
  template <class In>
  struct value {
    std::int32_t const* levels;
    float const* unit;
    In* x;
    float share;
    PITH_HD void operator()(std::uint64_t i) const {
      x[i] = pith::element_cast<In>(static_cast<float>(levels[i]) * *unit * share);
    }
  };
};

/// A communicator that gathers and does not sum.
struct gathers_only {
  unsigned rank() const;
  unsigned size() const;
  template <class E>
  pith::completed all_gather(E const&, span_on<E, std::byte const>, span_on<E, std::byte>);
};

}  // namespace models
